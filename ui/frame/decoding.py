"""The sidebar's decoding settings: beam search, greedy or sampling; and how a text was decoded.

A widget's value goes to the session's store and from there into the URL (see
`ui.core.url_state`).
"""

from __future__ import annotations

import math
import random
from typing import Any, TypeVar

import streamlit as st

from figures.numbers import signed
from transformer.search.decoding import Decoding
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.runs import fall_back
from ui.core.search_settings import MAX_ALPHA, MAX_BEAM, SearchChoice
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import bound, fill
from ui.work.progress import resume

T = TypeVar("T")


_HOW = ("Beam", "Greedy", "Sample")

#: Session keys: defaults of the current checkpoint, and settings that were filled from them.
_DEFAULTS, _FILLED = "headlight_default_decoding", "headlight_filled_decoding"


def restart() -> None:
    """Go back to the first step and resume stopped work, since the translation changes."""
    fall_back()
    url_state.forget(url_state.STEP)
    resume()


def resolve_decoding(default: Decoding, samples: bool = True) -> None:
    """Store every setting that applies, so that links contain it.

    Args:
        default: the checkpoint's decoding, used until a visitor or a link chooses another.
        samples: whether the model can sample.
    """
    _fill_in(default)
    applying = SearchChoice.params()
    if not (samples and url_state.get(SearchChoice.sample)):
        applying = applying[: 3 if samples else 2]
    for param in applying:
        url_state.put(param, url_state.get(param))
    url_state.show(*applying)


def _fill_in(default: Decoding) -> None:
    """Use the checkpoint's beam and alpha unless a visitor or a link chose others."""
    filled: dict[str, Any] = st.session_state.setdefault(_FILLED, {})
    within: dict[Param[Any], Any] = {
        SearchChoice.beam: min(default.beam_size, MAX_BEAM),
        SearchChoice.alpha: min(default.alpha, MAX_ALPHA),
    }
    for param, value in within.items():
        if url_state.arrived(param):
            filled.pop(param.name, None)  # a link's value outlives a change of checkpoint
        now = url_state.get(param)
        if not url_state.stored(param) or now == filled.get(param.name):
            url_state.put(param, value)
            filled[param.name] = value
    st.session_state[_DEFAULTS] = {param.name: value for param, value in within.items()}


def _default(param: Param[T]) -> T:
    """Return the checkpoint's default of a setting."""
    value: T = st.session_state.get(_DEFAULTS, {}).get(param.name, param.default)
    return value


def draw_decoding(samples: bool = True) -> None:
    """Draw the controls; without Sample if the model cannot sample."""
    sampled = samples and url_state.get(SearchChoice.sample)
    how = "Sample" if sampled else "Greedy" if url_state.get(SearchChoice.beam) == 1 else "Beam"
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
    url_state.put(SearchChoice.sample, how == "Sample")
    if how == "Greedy":
        url_state.put(SearchChoice.beam, 1)
    elif url_state.get(SearchChoice.beam) == 1:
        default = _default(SearchChoice.beam)
        url_state.put(SearchChoice.beam, default if default > 1 else SearchChoice.beam.default)
    restart()


def _draw_beam() -> None:
    st.slider("Beam size", 2, MAX_BEAM, help=term("beam"), **_bound(SearchChoice.beam))
    st.slider(
        "Length penalty α", 0.0, MAX_ALPHA, step=0.1, help=term("length penalty"),
        **_bound(SearchChoice.alpha),
    )  # fmt: skip
    default, choice = (
        Decoding(_default(SearchChoice.beam), _default(SearchChoice.alpha)),
        SearchChoice.read(),
    )
    if (choice.beam, choice.alpha) != (default.beam_size, default.alpha):
        st.button(
            f"Back to {default}", icon=":material/undo:", key="default_decoding_button",
            on_click=_take_defaults, width="stretch", help="This checkpoint's default decoding.",
        )  # fmt: skip


def _bound(param: Param[Any]) -> dict[str, Any]:
    """Bind a widget of the sidebar, which restarts the translation."""
    return bound(param, key=f"{param.name}_box", then=restart)


def _take_defaults() -> None:
    url_state.forget(SearchChoice.beam, SearchChoice.alpha)
    restart()


def _draw_sampling() -> None:
    for label, name, param, low, high, step in (
        ("Temperature", "temperature", SearchChoice.temperature, 0.05, 3.0, 0.05),
        ("Top k", "top-k", SearchChoice.top_k, 0, 100, 1),
        ("Top p", "top-p", SearchChoice.top_p, 0.05, 1.0, 0.05),
    ):
        st.slider(label, low, high, step=step, help=term(name), **_bound(param))
    st.number_input("Seed", 0, 999_999, step=1, help=term("seed"), **_bound(SearchChoice.seed))
    st.button(
        "New seed", icon=":material/casino:", key="seed_button", on_click=_new_seed,
        width="stretch",
    )  # fmt: skip


def _new_seed() -> None:
    old = url_state.get(SearchChoice.seed)
    url_state.put(
        SearchChoice.seed, random.choice([seed for seed in range(1, 1000) if seed != old])
    )
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
