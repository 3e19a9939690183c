"""Inside a head: one query followed through every stage of attention, with the real numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from figures.exhibit import Exhibit, Offline
from figures.head import head_exhibit, head_name
from figures.labels import show_token
from transformer.inspection import inspect_head
from transformer.records import ATTENTION_KINDS, HeadStages, Trace
from ui import state
from ui.bound import bound
from ui.cache import get_trace, key_of
from ui.cache import trace as trace_of
from ui.components.stages import head_stages, still_stages
from ui.computed import computed, result_of
from ui.controls import View, current_view
from ui.frame import require_frame
from ui.head_choice import (
    KEY,
    KIND,
    QUERY,
    SCALING,
    Place,
    chosen_now,
    forget_tokens,
    keep,
    keep_chosen,
    place_now,
    settle,
)
from ui.state import HEAD, LAYER, STEP
from ui.takeaway import snippet_header, take_away
from ui.text import code

require_frame()

#: What each kind is called, and what its queries and keys are tokens of (section 3.2.3).
KINDS = {
    "encoder_self": ("Encoder self-attention", ("source", "source")),
    "decoder_self": ("Decoder self-attention", ("translation", "translation")),
    "cross": ("Cross-attention", ("translation", "source")),
}


def explain() -> None:
    """The whole mechanism in one equation."""
    st.latex(
        r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\!\left(\frac{QK^{\top}}{\sqrt{d_k}}\right)V"
    )
    st.markdown(
        "This page takes equation 1 of section 3.2.1 apart, for one row of $Q$. Each head has "
        "projections of its own (section 3.2.2): "
        r"$\mathrm{head}_i=\mathrm{Attention}(QW_i^Q,KW_i^K,VW_i^V)$."
        "\n\nAll numbers are those of this checkpoint for this sentence. The paper suspects that "
        "for large $d_k$ the dot products grow so large that the softmax has *extremely small "
        "gradients*; stage 4 and the table at stage 6 let you test it."
    )


def stages_of(place: Place) -> Callable[..., HeadStages]:
    """What to compute for a place."""
    return lambda model, trace: inspect_head(
        model.model, trace, place.kind, place.layer, place.head, place.query
    )


def difference(stages: HeadStages, trace: Trace) -> float:
    """How far the weights made here are from the recorded map."""
    recorded = trace.attention(stages.kind)[stages.layer, stages.head, stages.query]
    return float(abs(stages.scaled.weights - recorded).max())


def draw_controls(shown: Trace, place: Place) -> Place:
    """Layer, head and query. Returns: the place, unchanged; a new choice runs the page again."""
    n_layers, n_heads, n_queries, _ = shown.attention(place.kind).shape
    queries, _ = shown.axis_tokens(place.kind)

    def query_label(i: int) -> str:
        label = f"{i + 1}  {show_token(queries[i])}"
        if place.kind == "encoder_self":
            return label
        return f"{label}  (predicts {show_token(shown.predicted_tokens[i])})"

    def select(label: str, name: str, n: int, label_of: Callable[[int], str]) -> None:
        key = f"head_{name}_box"
        if st.session_state.get(key) != getattr(place, name):
            st.session_state[key] = getattr(place, name)

        def store() -> None:
            keep(replace(place, **{name: st.session_state[key]}))

        st.selectbox(label, range(n), key=key, format_func=label_of, on_change=store)

    boxes = st.columns([1, 1, 3, 1], vertical_alignment="bottom")
    with boxes[0]:
        select("Layer", "layer", n_layers, lambda i: str(i + 1))
    with boxes[1]:
        select("Head", "head", n_heads, lambda i: str(i + 1))
    with boxes[2]:
        select("Query token", "query", n_queries, query_label)
    return place


def exhibit(view: View, place: Place) -> Callable[[], Exhibit]:
    """The figure to take away, made outside of the session."""
    chosen, names = chosen_now(get_trace(view), place), KINDS[place.kind][1]

    def make() -> Exhibit:
        stages = result_of(view, "head", place, stages_of(place))
        recorded = trace_of(key_of(view), lambda step, most: None)
        message = still_stages(
            stages, names=names, difference=difference(stages, recorded), chosen=chosen
        )
        return head_exhibit(stages, snippet_header(view), names, Offline("stages", message))

    return make


@st.fragment
def story(view: View) -> None:
    """Controls and stages. Runs again by itself when something here is chosen."""
    shown = get_trace(view)
    kinds, more = st.columns([3, 2], vertical_alignment="center")
    kinds.segmented_control(
        "Kind of attention", ATTENTION_KINDS, format_func=lambda kind: KINDS[kind][0],
        label_visibility="collapsed", required=True, **_bound_kind(),
    )  # fmt: skip
    place = draw_controls(shown, place_now(view, shown))
    name, names = KINDS[place.kind]
    chosen = chosen_now(shown, place)
    stages = computed(view, "head", place, stages_of(place))
    with more.container(horizontal=True, horizontal_alignment="right"):
        with st.popover("What is this?", type="tertiary"):
            explain()
        take_away(
            exhibit(view, place), key="head",
            name=head_name(place.kind, place.layer, place.head, place.query),
        )  # fmt: skip
    st.markdown(
        f"**{name}, layer {place.layer + 1}, head {place.head + 1}.** "
        f"The query {code(stages.query_token)} looks at the {names[1]}."
    )
    head_stages(
        stages, names=names, difference=difference(stages, shown), chosen=chosen,
        on_choose=keep_chosen, key="stages",
    )  # fmt: skip
    state.write_url()


def _bound_kind() -> dict[str, object]:
    held = bound(KIND)
    store = held["on_change"]

    def changed() -> None:
        store()
        forget_tokens()

    return held | {"on_change": changed}


state.show(KIND, LAYER, HEAD, QUERY, KEY, SCALING, STEP)
st.markdown(
    "One token looks at the others: **follow it from its vector to what the head adds.** "
    "Click a key to follow that one, and switch the division off at stage 4."
)
now = current_view()
settle(now)
get_trace(now)  # here, where its progress and messages replace the page
story(now)
