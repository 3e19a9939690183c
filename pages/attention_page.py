"""Attention: every layer and head of one kind of attention, and one of them under the lens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from figures.attention import describe, heatmap, mass_on
from transformer.records import ATTENTION_KINDS, AttentionKind, Floats, Trace
from ui import state
from ui.bound import bound
from ui.cache import get_trace
from ui.components.grid import Cell, attention_grid, name_of, pick
from ui.components.lens import MOST_TOKENS, attention_lens
from ui.controls import View, current_view
from ui.frame import require_frame
from ui.state import HEAD, LAYER, Param
from ui.text import code
from ui.theme import current_theme

require_frame()

#: Room for grid and lens side by side in a window of 1280 px, and what they need of it, in px.
_ROOM, _GRID_LABELS, _GRID_CELL, _LENS_LABELS, _LENS_CELL = 860, 65, 60, 95, 12

KIND: Param[str] = Param("kind", state.one_of(ATTENTION_KINDS), "cross")
DIM: Param[bool] = Param("dim", state.parse_switch, False, state.write_switch)


@dataclass(frozen=True)
class Story:
    """What one kind of attention is, in words (section 3.2.3).

    Attributes:
        name: on the control.
        about: one or two sentences.
        queries, keys: what the axes hold.
    """

    name: str
    about: str
    queries: str
    keys: str


STORIES: dict[AttentionKind, Story] = {
    "encoder_self": Story(
        "Encoder self-attention",
        "Every source token looks at every source token. Nothing is masked: the whole sentence is "
        "there from the start.",
        "source",
        "source",
    ),
    "decoder_self": Story(
        "Decoder self-attention",
        "Every token of the translation looks at itself and at those before it. Later ones are "
        "masked (dots): while translating, they do not exist yet.",
        "translation",
        "translation",
    ),
    "cross": Story(
        "Cross-attention",
        "Every token of the translation looks at the whole source while the token after it is "
        "predicted. Nothing is masked.",
        "translation",
        "source",
    ),
}


def explain() -> None:
    """The mechanism in the paper's words and numbering."""
    st.markdown(
        "A **query** is compared with every **key**. The softmax turns the comparisons into "
        "weights that sum to 1, and the query's position takes in the **values** by these weights "
        "(section 3.2.1, equation 1). Each head does so with projections of its own (3.2.2)."
    )
    st.latex(
        r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\!\left(\frac{QK^{\top}}{\sqrt{d_k}}\right)V"
    )
    st.markdown(
        "One row of a map is one query and sums to 1. Colours mean the same weight in every map, "
        "from 0 to 1. Section 3.2.3 names the three uses: in **encoder self-attention** queries, "
        "keys and values come from the source; in **decoder self-attention** from the "
        "translation, with later positions set to −∞ before the softmax; in **cross-attention** "
        "queries come from the translation, keys and values from the encoder's output."
    )


def cell_of(kind: AttentionKind, trace: Trace) -> Cell:
    """The cell that the view asks for, 0-based; the mean where this model has no such layer."""
    n_layers, n_heads = trace.attention(kind).shape[:2]
    layer, head = state.get(LAYER), state.get(HEAD)
    return (
        layer - 1 if layer is not None and layer <= n_layers else None,
        head - 1 if head is not None and head <= n_heads else None,
    )


def choose(cell: Cell) -> None:
    """Keep what was chosen in the grid."""
    layer, head = cell
    state.put(LAYER, None if layer is None else layer + 1)
    state.put(HEAD, None if head is None else head + 1)


def name_of_cell(cell: Cell, n_layers: int, n_heads: int) -> str:
    """What the chosen map is called."""
    layer, head = cell
    row = n_layers if layer is None else layer
    column = n_heads if head is None else head
    return name_of(row, column, n_layers + 1, n_heads + 1)


def row_notes(kind: AttentionKind, trace: Trace) -> list[str]:
    """For each query of the decoder, the token that its position goes on to predict."""
    return [] if kind == "encoder_self" else [f"predicts {t}" for t in trace.predicted_tokens]


def hidden(shown: Floats, keys: Sequence[str], dimmed: Sequence[int]) -> str:
    """How much of the attention in a map the dimmed columns hold, after the map's name."""
    if not dimmed:
        return ""
    labels = " and ".join(dict.fromkeys(code(keys[position]) for position in dimmed))
    return f" · dimming {labels} hides {mass_on(shown, dimmed):.1%} of the attention in this map"


@st.fragment
def maps(view: View) -> None:
    """Controls, grid and lens. Runs again by itself when something here is chosen."""
    trace = get_trace(view)
    names = {kind: story.name for kind, story in STORIES.items()}
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.segmented_control(
        "Kind of attention", ATTENTION_KINDS, format_func=names.__getitem__,
        label_visibility="collapsed", required=True, **bound(KIND),
    )  # fmt: skip
    with right.container(
        horizontal=True, horizontal_alignment="right", vertical_alignment="center"
    ):
        st.toggle(
            "Dim special tokens", **bound(DIM),
            help="Cover the columns of `<s>` and `</s>`. Weight there is information: it says how "
            "little a head takes from the words. The share of attention that is hidden is the mean "
            "over the map's queries.",
        )  # fmt: skip
        with st.popover("What is this?", icon=":material/info:"):
            explain()
    kind = next(kind for kind in ATTENTION_KINDS if kind == state.get(KIND))
    story, weights = STORIES[kind], trace.attention(kind)
    queries, keys = trace.axis_tokens(kind)
    special = trace.tgt_special if kind == "decoder_self" else trace.src_special
    dimmed = special if state.get(DIM) else ()
    cell = cell_of(kind, trace)
    name = name_of_cell(cell, *weights.shape[:2])
    shown = pick(weights, cell)

    st.caption(story.about)
    longest = max(len(queries), len(keys))
    share = min(0.56, max(0.38, (_GRID_LABELS + _GRID_CELL * (weights.shape[1] + 1)) / _ROOM))
    beside = _LENS_LABELS + _LENS_CELL * longest <= (1 - share) * _ROOM
    grid, lens = st.columns([share, 1 - share], gap="large") if beside else (st, st)
    with grid.container():
        attention_grid(
            weights, queries, keys, chosen=cell, on_choose=choose, key="grid",
            label=f"{story.name}, all layers and heads", dimmed_keys=dimmed,
            cell_width=120 if beside else 56,
        )  # fmt: skip
        st.caption(
            "Attention shows where a head reads, not what the model does with it; by itself it is "
            "not an explanation."
        )
    with lens.container():
        st.markdown(f"**{name}**" + hidden(shown, keys, dimmed))
        if longest <= MOST_TOKENS:
            attention_lens(
                shown, queries, keys, name=name, query_title=story.queries, key_title=story.keys,
                query_notes=row_notes(kind, trace), key="lens", dimmed_keys=dimmed,
                causal=kind == "decoder_self", max_height=465 if beside else 900,
            )  # fmt: skip
        else:
            figure = heatmap(
                shown, queries, keys, current_theme(), query_title=story.queries,
                key_title=story.keys, dimmed_keys=dimmed,
            )  # fmt: skip
            st.plotly_chart(
                figure, key="large", theme=None, alt=f"{name}: {describe(shown, queries, keys)}."
            )
    state.write_url()


state.show(KIND, LAYER, HEAD, DIM)
st.markdown(
    "Each small map is one head. **Click one to read it large**, and compare its neighbours."
)
now = current_view()
get_trace(now)  # here, where its progress and messages replace the page
maps(now)
