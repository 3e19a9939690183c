"""The sidebar's decoding settings (beam search, greedy, sampling), and descriptions of decoding."""

import math
import random
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from figures.labels import signed
from transformer.search.request import Decoding
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.url_state import Param
from ui.core.view import MAX_ALPHA, MAX_BEAM, SearchChoice, View
from ui.core.widgets import bound, filled
from ui.work.desk import resume
from ui.work.visit import fall_back

_HOW = ("Beam", "Greedy", "Sample")

#: Session key: settings filled from checkpoint defaults.
_FILLED = "headlight_filled_decoding"


def restart() -> None:
    """Reset the step and resume stopped work, because the translation changes."""
    fall_back()
    url_state.forget(url_state.STEP)
    resume()


def draw_decoding(default: Decoding, samples: bool = True, visible: bool = True) -> None:
    """Draw the controls, and store all settings that apply, so that links contain them.

    Args:
        default: the checkpoint's decoding, until a visitor or link chooses another.
        samples: True if the model can sample.
        visible: False stores the settings without drawing.
    """
    own = default
    alpha = min(max(own.alpha, -MAX_ALPHA), MAX_ALPHA)
    default = replace(own, beam_size=min(own.beam_size, MAX_BEAM), alpha=alpha)
    defaults: dict[str, Any] = st.session_state.setdefault(_FILLED, {})
    values: dict[Param[Any], Any]
    values = {SearchChoice.beam: default.beam_size, SearchChoice.alpha: default.alpha}
    sampled = samples and url_state.get(SearchChoice.sample)
    applying = SearchChoice.params()[: None if sampled else 3 if samples else 2]
    stored = {param: url_state.get(param) for param in applying}
    for param, value in values.items():
        if url_state.arrived(param):
            defaults.pop(param.name, None)  # a link's value survives a change of checkpoint
        if not url_state.stored(param) or stored[param] == defaults.get(param.name):
            stored[param] = defaults[param.name] = value
    url_state.store(stored)
    url_state.show(*applying)
    if not visible:
        return
    how = "Sample" if sampled else "Greedy" if url_state.get(SearchChoice.beam) == 1 else "Beam"
    with st.expander("Decoding", icon=":material/tune:"):
        st.segmented_control(
            "Search", _HOW if samples else _HOW[:2], label_visibility="collapsed", required=True,
            width="stretch", **filled("search_box", how, partial(_take_search, default)),
        )  # fmt: skip
        if how == "Beam":
            _draw_beam(default)
        elif how == "Sample":
            _draw_sampling()
        else:
            st.caption("Every step takes the most probable token.")
        if default != own:
            st.caption(f"This model's own decoding is {own}; the limit here is {default}.")


def _take_search(default: Decoding, how: str) -> None:
    beam = 1 if how == "Greedy" else url_state.get(SearchChoice.beam)
    if how != "Greedy" and beam == 1:
        beam = default.beam_size if default.beam_size > 1 else SearchChoice.beam.default
    url_state.store({SearchChoice.sample: how == "Sample", SearchChoice.beam: beam})
    restart()


def _draw_beam(default: Decoding) -> None:
    st.slider("Beam size", 2, MAX_BEAM, help=term("beam"), **_bound(SearchChoice.beam))
    st.slider(
        "Length penalty α", -MAX_ALPHA, MAX_ALPHA, step=0.1, help=term("length penalty"),
        **_bound(SearchChoice.alpha),
    )  # fmt: skip

    def take_defaults() -> None:
        url_state.forget(SearchChoice.beam, SearchChoice.alpha)
        restart()

    choice = SearchChoice.read()
    if (choice.beam, choice.alpha) != (default.beam_size, default.alpha):
        st.button(
            f"Back to {default}", icon=":material/undo:", key="default_decoding_button",
            on_click=take_defaults, width="stretch", help="This model's default decoding.",
        )  # fmt: skip


def _bound(param: Param[Any]) -> dict[str, Any]:
    return bound(param, key=f"{param.name}_box", then=restart)


def _draw_sampling() -> None:
    for label, name, param, low, high, step in (
        ("Temperature", "temperature", SearchChoice.temperature, 0.05, 3.0, 0.05),
        ("Top k", "top-k", SearchChoice.top_k, 0, 100, 1),
        ("Top p", "top-p", SearchChoice.top_p, 0.05, 1.0, 0.05),
    ):
        st.slider(label, low, high, step=step, help=term(name), **_bound(param))
    st.number_input("Seed", 0, 999_999, step=1, help=term("seed"), **_bound(SearchChoice.seed))

    def new_seed() -> None:
        old = url_state.get(SearchChoice.seed)
        url_state.put(SearchChoice.seed, random.choice([n for n in range(1, 1000) if n != old]))
        restart()

    st.button(
        "New seed", icon=":material/casino:", key="seed_button", on_click=new_seed,
        width="stretch",
    )  # fmt: skip


def how_decoded(view: View, trace: Trace) -> str:
    """Describe the decoding in a few words."""
    if view.kind == "archive":
        return "as recorded in the file"
    if trace.forced:
        return "given, teacher forcing"
    if view.sampling is not None:
        drawn = view.sampling
        settings = [f"temperature {drawn.temperature:g}"]
        settings += [f"top k {drawn.top_k}"] if drawn.top_k else []
        settings += [f"top p {drawn.top_p:g}"] if drawn.top_p < 1 else []
        how = f"sampled, {', '.join(settings)}, seed {drawn.seed}"
    else:
        how = "greedy" if view.beam_size == 1 else f"beam {view.beam_size}, α {view.alpha:g}"
    if view.kind == "huggingface":
        return f"{how}; maps of one pass over it, teacher forcing"
    if trace.n_forced:
        how += f"; the first {trace.n_forced} given"
    return how


def _changed_by_search(trace: Trace) -> int:
    """Return the number of steps whose `log_probs` are the search's and differ from the model's."""
    n_steps = 0
    for t, (log_prob, tops) in enumerate(zip(trace.log_probs, trace.top_log_probs, strict=False)):
        own = tops[trace.top_ids[t] == trace.predicted_ids[t]]
        # A token outside the alternatives is less probable than all of them.
        above = not len(own) and len(tops) and log_prob > tops.min()
        n_steps += bool(above or (abs(log_prob - own) > 1e-4).any())
    return n_steps


def decoded_text(view: View, trace: Trace) -> str:
    """Describe score and decoding, with terms linked to the glossary."""
    score = "no score" if math.isnan(trace.score) else f"final score {signed(trace.score)} nats"
    text = f"{score} ({how_decoded(view, trace)})"
    if n := _changed_by_search(trace):
        text += (
            f"; at {n} of {len(trace.log_probs)} steps the log-probability is the search's, after "
            "its rules, and the alternatives are the model's"
        )
    return linked(text, "score", "nats", "α", "temperature", "top k", "top p", "teacher forcing")
