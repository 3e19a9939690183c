"""The sidebar's decoding settings: beam search, greedy or sampling; and how a text was decoded.

A widget's value goes to the session's store and from there into the URL (see
`ui.core.url_state`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from figures.numbers import signed
from transformer.search.decoding import Decoding
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.runs import fall_back
from ui.core.search_settings import (
    ALPHA,
    BEAM,
    MAX_ALPHA,
    MAX_BEAM,
    SAMPLE,
    SEED,
    TEMPERATURE,
    TOP_K,
    TOP_P,
)
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import fill
from ui.work.progress import resume

T = TypeVar("T")


_HOW = ("Beam", "Greedy", "Sample")

#: Session keys: defaults of the current checkpoint, and settings that were filled from them.
_DEFAULTS, _FILLED = "headlight_default_decoding", "headlight_filled_decoding"


def restart() -> None:
    """Go back to the first step and resume stopped work, since the translation changes.

    Runs that draw again what stands go first.
    """
    fall_back()
    url_state.forget(url_state.STEP)
    resume()


def follow(param: Param[T], key: str) -> Callable[[], None]:
    """Return a callback that stores a widget's value and restarts."""

    def store() -> None:
        url_state.put(param, st.session_state[key])
        restart()

    return store


def resolve_decoding(default: Decoding, samples: bool = True) -> None:
    """Store every setting that applies, so that links contain it.

    Args:
        default: the checkpoint's decoding, used until a visitor or a link chooses another.
        samples: whether the model can sample.
    """
    _fill_in(default)
    applying: tuple[Param[Any], ...] = (BEAM, ALPHA, SAMPLE) if samples else (BEAM, ALPHA)
    if samples and url_state.get(SAMPLE):
        applying += (TEMPERATURE, TOP_K, TOP_P, SEED)
    for param in applying:
        url_state.put(param, url_state.get(param))
    url_state.show(*applying)


def _fill_in(default: Decoding) -> None:
    """Use the checkpoint's beam and alpha unless a visitor or a link chose others."""
    filled: dict[str, Any] = st.session_state.setdefault(_FILLED, {})
    within: tuple[tuple[Param[Any], Any], ...] = (
        (BEAM, min(default.beam_size, MAX_BEAM)), (ALPHA, min(default.alpha, MAX_ALPHA)),
    )  # fmt: skip
    for param, value in within:
        if url_state.arrived(param):
            filled.pop(param.name, None)  # a link's value outlives a change of checkpoint
        now = url_state.get(param)
        if not url_state.stored(param) or now == filled.get(param.name):
            url_state.put(param, value)
            filled[param.name] = value
    st.session_state[_DEFAULTS] = {param.name: value for param, value in within}


def _default(param: Param[T]) -> T:
    """Return the checkpoint's default of a setting."""
    value: T = st.session_state.get(_DEFAULTS, {}).get(param.name, param.default)
    return value


def draw_decoding(samples: bool = True) -> None:
    """Draw the controls; without Sample if the model cannot sample."""
    sampled = samples and url_state.get(SAMPLE)
    how = "Sample" if sampled else "Greedy" if url_state.get(BEAM) == 1 else "Beam"
    with st.expander("Decoding", icon=":material/tune:"):
        fill("search_box", how)
        st.segmented_control(
            "Search", _HOW if samples else _HOW[:2], key="search_box", on_change=_take_search,
            label_visibility="collapsed", width="stretch", required=True,
        )  # fmt: skip
        if how == "Beam":
            _draw_beam()
        elif how == "Sample":
            _draw_sampling()
        else:
            st.caption("The most probable token is taken at every step.")


def _take_search() -> None:
    how = st.session_state["search_box"]
    url_state.put(SAMPLE, how == "Sample")
    if how == "Greedy":
        url_state.put(BEAM, 1)
    elif url_state.get(BEAM) == 1:
        default = _default(BEAM)
        url_state.put(BEAM, default if default > 1 else BEAM.default)
    restart()


def _draw_beam() -> None:
    fill("beam_box", url_state.get(BEAM))
    st.slider(
        "Beam size", 2, MAX_BEAM, key="beam_box", on_change=follow(BEAM, "beam_box"),
        help=term("beam"),
    )  # fmt: skip
    fill("alpha_box", url_state.get(ALPHA))
    st.slider(
        "Length penalty α", 0.0, MAX_ALPHA, step=0.1, key="alpha_box",
        on_change=follow(ALPHA, "alpha_box"),
        help=term("length penalty"),
    )  # fmt: skip
    default = Decoding(_default(BEAM), _default(ALPHA))
    if (url_state.get(BEAM), url_state.get(ALPHA)) != (default.beam_size, default.alpha):
        st.button(
            f"Back to {default}", icon=":material/undo:", key="default_decoding_button",
            on_click=_take_defaults, width="stretch", help="This checkpoint's default decoding.",
        )  # fmt: skip


def _take_defaults() -> None:
    url_state.forget(BEAM, ALPHA)
    restart()


def _draw_sampling() -> None:
    fill("temperature_box", url_state.get(TEMPERATURE))
    st.slider(
        "Temperature", 0.05, 3.0, step=0.05, key="temperature_box",
        on_change=follow(TEMPERATURE, "temperature_box"),
        help=term("temperature"),
    )  # fmt: skip
    fill("top_k_box", url_state.get(TOP_K))
    st.slider(
        "Top k", 0, 100, key="top_k_box", on_change=follow(TOP_K, "top_k_box"),
        help=term("top-k"),
    )  # fmt: skip
    fill("top_p_box", url_state.get(TOP_P))
    st.slider(
        "Top p", 0.05, 1.0, step=0.05, key="top_p_box", on_change=follow(TOP_P, "top_p_box"),
        help=term("top-p"),
    )  # fmt: skip
    fill("seed_box", url_state.get(SEED))
    st.number_input(
        "Seed", 0, 999_999, step=1, key="seed_box", on_change=follow(SEED, "seed_box"),
        help=term("seed"),
    )  # fmt: skip
    st.button(
        "New seed", icon=":material/casino:", key="seed_button", on_click=_new_seed,
        width="stretch",
    )  # fmt: skip


def _new_seed() -> None:
    old = url_state.get(SEED)
    url_state.put(SEED, random.choice([seed for seed in range(1, 1000) if seed != old]))
    restart()


def how_decoded(view: View, trace: Trace) -> str:
    """Return a few words on how the translation was produced."""
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


def score_text(trace: Trace) -> str:
    """Return the translation's score as text; "no score" if it has none."""
    if math.isnan(trace.score):
        return "no score"
    return f"score {signed(trace.score)} nats"


def decoded_text(view: View, trace: Trace) -> str:
    """Return the score and how the translation was produced, terms linked to the glossary."""
    text = f"{score_text(trace)} ({how_decoded(view, trace)})"
    return linked(text, "score", "nats", "α", "temperature", "top k", "top p", "teacher forcing")
