"""The part of the Family page that puts one stack and two on the same sentence."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from figures.attention import describe, heatmap
from figures.markdown import code, plain
from figures.numbers import parameters
from transformer.catalogue import Entry
from transformer.measures.words import source_block
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.layout import current_theme, draw_plot
from ui.core.view import View, ask_for
from ui.core.widgets import numbered
from ui.export.download import download_button, source_of, trace_for
from ui.family.choice import StacksChoice, best_aligner, pair_of, view_of
from ui.family.exhibits import looks, looks_figure
from ui.work.cache import get_trace

#: Layer and head of each translator.
_PARAMS = {
    "two": (StacksChoice.layer_two, StacksChoice.head_two),
    "one": (StacksChoice.layer_one, StacksChoice.head_one),
}


def draw_stacks(view: View, entries: Sequence[Entry]) -> None:
    """Draw one sentence through a translator of two stacks and one of one stack."""
    pair = pair_of(entries)
    if pair is None:
        st.info(
            "This needs two translators trained on the same text, one of a single stack: see "
            "recipes/decoder-only-en-de.toml.",
            icon=":material/info:",
        )
        return
    two, one = (view_of(view, entry) for entry in pair)
    st.markdown(
        f"Both learned the same captions. {code(two.checkpoint)} has an encoder and a decoder; "
        f"{code(one.checkpoint)} reads the source as the beginning of its own text. **Where it "
        "looks back at the source, it does what cross-attention does.**"
    )
    _offer_caption(view, two)
    traces = get_trace(two), get_trace(one)
    columns = st.columns(2, gap="large")
    heads = []
    for name, side, trace, place in zip(("two", "one"), (two, one), traces, columns, strict=True):
        with place:
            heads.append(_draw_side(name, side, trace))
    chosen = heads[0], heads[1]
    with st.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: looks_figure(
                (source_of(two), source_of(one)), (trace_for(two), trace_for(one)), chosen
            ),
            key="family_stacks", name="one-stack-or-two",
        )  # fmt: skip


def _offer_caption(view: View, two: View) -> None:
    """Say what both can read, if the sentence was not chosen for models like them."""
    known = two.examples
    if view.examples.kind == known.kind or known.find(view.sentence) is not None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Trained on captions; expect errors on other text.")
        st.button(
            "Try a caption", type="tertiary", on_click=ask_for, args=(known.items[2].sentence,)
        )


def _draw_side(name: str, view: View, trace: Trace) -> tuple[int, int]:
    """Draw one translator; return its layer and head, from 0."""
    entry = view.entry
    maps = trace.cross if trace.cross.size else source_block(trace).weights
    n_layers, n_heads = maps.shape[:2]
    shape = entry.stack or entry.config
    size = f", {parameters(shape.n_parameters)} parameters" if shape else ""
    kind = "two stacks" if entry.stack is None else "one stack"
    st.markdown(f"{code(view.checkpoint)}, **{kind}**{size}  \n“{plain(trace.text)}”")
    best = best_aligner(entry.metrics)
    layer, head, notes = 0, 0, []
    if best is not None and best[0] < n_layers and best[1] < n_heads:
        layer, head = best[0], best[1]
        if entry.updates is None:  # the errors are those of the finished model
            notes.append(
                f"Of its {n_layers * n_heads} heads, layer {layer + 1}, head {head + 1} aligns "
                f"words best, with an error of {100 * best[2]:.0f}%"
            )
    layer_param, head_param = _PARAMS[name]
    layer = url_state.index(layer_param, n_layers, layer)
    head = url_state.index(head_param, n_heads, head)
    boxes = st.columns(2)
    with boxes[0]:
        numbered("family", layer_param, "Layer", [str(i + 1) for i in range(n_layers)], layer)
    with boxes[1]:
        numbered("family", head_param, "Head", [str(i + 1) for i in range(n_heads)], head)
    weights, rows, columns = looks(trace, layer, head)
    figure = heatmap(
        weights, rows, columns, current_theme(), query_title="translation", key_title="source"
    )
    figure.update_layout(height=370)
    draw_plot(st.container(), figure, f"family_{name}", describe(weights, rows, columns))
    if entry.stack is not None:
        share = float(weights.sum(axis=1).mean())
        notes.append(f"This head puts {100 * share:.0f}% of its weight on the source")
    if notes:
        st.caption(". ".join(notes) + ".")
    return layer, head
