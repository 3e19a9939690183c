"""Translate: step through decoding and watch where the model looks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import streamlit as st

from transformer.records import Trace
from ui import state
from ui.cache import get_trace, key_of
from ui.components.player import Place, encode, place_in, player
from ui.controls import View, current_view
from ui.examples import Example
from ui.frame import require_frame
from ui.text import code

require_frame()

_KEY = "player"
_START = "player_start"


@dataclass(frozen=True)
class Start:
    """Where the player was opened: in which trace, at which place, and how often before."""

    trace: str
    place: Place
    nonce: int


@st.fragment
def story(view: View) -> None:
    """The page. Runs again by itself when the player reports, and never moves a player in use."""
    trace = get_trace(view)
    words, asides = st.columns([4, 1], vertical_alignment="center")
    with words.container(key="source"):
        st.text(" ".join(trace.source.split()))
    with asides.container(horizontal=True, horizontal_alignment="right", gap="xsmall"):
        with st.popover("What is this?", type="tertiary"):
            explain()
        link = st.popover("Link", type="tertiary", icon=":material/link:")
    with st.container(key="headline" if len(trace.text) <= 120 else "headline_long"):
        st.text(trace.text or "(an empty translation)")
    say_what_is_wrong(trace)
    st.caption(
        "The light on the source shows where the decoder looks while it picks the next token. "
        "Press play or the arrow keys, then try single layers and heads."
    )
    start = st.session_state[_START]
    name = trace_id(view)

    def follow() -> None:
        reported = place_in(st.session_state.get(_KEY), name)
        if reported is not None:
            remember(reported)

    player(encode(trace, name, start.place, start.nonce), key=_KEY, on_view_change=follow)
    how = "greedy" if view.beam_size == 1 else f"beam {view.beam_size}, α {view.alpha:g}"
    st.caption(
        f"{len(trace.src_tokens)} source and {len(trace.predicted_tokens)} target tokens, "
        f"score {signed(trace.score)} nats ({how}). Attention is not by itself an explanation."
    )
    state.write_url()
    link.caption("Opens this view again: sentence, checkpoint, step, layer and head.")
    link.code(state.link(), language=None, wrap_lines=True)


def signed(number: float) -> str:
    """Two decimals, with a minus sign where there is something to subtract."""
    return f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")


def say_what_is_wrong(trace: Trace) -> None:
    """Name the pieces that the model does not know, and say where the length limit cut."""
    if trace.src_unknown:
        pieces = list(dict.fromkeys(trace.src_tokens[position] for position in trace.src_unknown))
        named = ", ".join(code(piece, 20) for piece in pieces[:12])
        more = " and more" if len(pieces) > 12 else ""
        known = set(range(len(trace.src_tokens))) - {*trace.src_unknown, *trace.src_special}
        if all(trace.src_tokens[position] == "▁" for position in known):
            said = "knows nothing of this sentence", "The translation is made up."
        elif len(pieces) == 1:
            said = "does not know one piece of this sentence", "Do not trust the translation there."
        else:
            said = f"does not know {len(pieces)} pieces", "Do not trust the translation there."
        st.warning(
            f"This checkpoint {said[0]}: {named}{more}. {said[1]}", icon=":material/question_mark:"
        )
    if not trace.complete:
        st.warning(
            f"Cut at the length limit of {len(trace.predicted_tokens)} tokens: the model did not "
            "end the sentence by itself.",
            icon=":material/content_cut:",
        )


def explain() -> None:
    """The mechanism behind the picture, in the paper's words and numbering."""
    st.markdown(
        "The decoder writes one token at a time. At each step the position being predicted sends "
        "a **query** to every source token's **key**; the softmax of their match is how much of "
        "each source token's **value** it takes in (section 3.2.3, encoder-decoder attention)."
    )
    st.latex(
        r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\!\left(\frac{QK^{\top}}{\sqrt{d_k}}\right)V"
    )
    st.markdown(
        "Every row of the matrix is one query and sums to 1. Each layer has several heads, which "
        "look at different things; *mean* averages them. The bars are the softmax over the whole "
        "vocabulary for the next token, and entropy says how open that choice is (section 3.4).\n\n"
        "Attention is not by itself an explanation: it shows where a head reads, not what the "
        "model does with what it read."
    )


def trace_id(view: View) -> str:
    """A short name for a view's trace, which the player sends back with its reports."""
    return hashlib.sha256(repr(key_of(view)).encode("utf-8", "replace")).hexdigest()[:16]


def remember(place: Place) -> None:
    """Keep where the player stands, for the URL and for the way back from another page."""
    state.put(state.STEP, place.step)
    state.put(state.LAYER, place.layer)
    state.put(state.HEAD, place.head)


def settle(view: View, trace: Trace) -> None:
    """Decide where the player opens: where it stood, where a link says, or at a telling step.

    The decision stands until the trace changes, a link arrives or the page is opened again, since
    an unchanged message is not sent twice and leaves a player in use alone.
    """
    name = trace_id(view)
    held = st.session_state.get(_START)
    asked = state.arrived(state.STEP, state.LAYER, state.HEAD)
    if held is not None and held.trace == name and not asked and not state.entered():
        return
    step = state.get(state.STEP)
    if step is None or step > len(trace.predicted_tokens):
        step = telling_step(trace, view.examples.find(view.sentence))
    n_layers, n_heads = trace.cross.shape[:2]
    layer, head = state.get(state.LAYER), state.get(state.HEAD)
    place = Place(
        step=step,
        layer=layer if layer is not None and layer <= n_layers else None,
        head=head if head is not None and head <= n_heads else None,
    )
    st.session_state[_START] = Start(name, place, held.nonce + 1 if held else 0)
    remember(place)


def telling_step(trace: Trace, example: Example | None) -> int:
    """The step, from 1, that looks most at the word an example is about; the first without one."""
    if example is None or not example.watch:
        return 1
    watched = [
        position
        for position, token in enumerate(trace.src_tokens)
        if token.lstrip("▁").lower() == example.watch
    ]
    if not watched:
        return 1
    looks = trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1)
    return int(np.argmax(looks)) + 1


state.show(state.STEP, state.LAYER, state.HEAD)
view = current_view()
settle(view, get_trace(view))
story(view)
