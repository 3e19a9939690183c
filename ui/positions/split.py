"""The section of the Positions page on layer 1: logits as content plus position."""

import numpy as np
import streamlit as st

from figures.labels import KIND_NAMES, plain
from transformer.config import ModelConfig
from transformer.trace.position_vectors import stored_note
from transformer.trace.records import LogitSplit, Trace
from transformer.trace.split import split_logits, why_not
from transformer.types import AttentionKind
from ui.components.mount import show
from ui.core import url_state
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import choose_one, coloured, numbered
from ui.export.download import download_below
from ui.positions import exhibits
from ui.work.desk import computed, fragment, get_trace, get_translator
from ui.work.results import Computation

SIDES: dict[str, AttentionKind] = {"encoder": "encoder_self", "decoder": "decoder_self"}
SPLIT: Param[str] = Param("split", url_state.one_of(SIDES), "encoder")


def draw_split(view: View, config: ModelConfig) -> None:
    """Draw the maps, their sum and the residual, or say why the split is not exact."""
    st.markdown("#### Content and position in the first layer")
    reason = why_not(config)
    if reason is not None:
        st.info(plain(reason), icon=":material/block:")
        return
    # Outside the fragment, so progress and messages replace the section.
    computed(view, _split(*_kind_and_head(get_trace(view))))
    _maps(view)


def _kind_and_head(trace: Trace) -> tuple[AttentionKind, int]:
    """Return the kind and head to split: the chosen head, or else the most positional one."""
    kind = SIDES[url_state.get(SPLIT)]
    maps = trace.attention(kind)[0]  # [H, n, n]
    layer, head = url_state.cell(len(maps), len(maps), kind)
    if not url_state.stored(LAYER):  # links name the head alone
        layer, head = 0, url_state.index(HEAD, len(maps))
    if layer != 0 or head is None:  # the head with the most weight at one distance
        n = maps.shape[-1]
        distances = range(-min(3, n - 1), min(4, n))
        totals = [np.trace(maps, distance, axis1=1, axis2=2) for distance in distances]
        head = int(np.max(totals, axis=0).argmax())
    return kind, head


@fragment
def _maps(view: View) -> None:
    trace = get_trace(view)
    st.markdown(
        coloured(r"""
        The input of layer 1 is a sum, $x_i=e_i+p_i$: a token's embedding (its content) plus its
        position. Projections are linear, so every logit is exactly a sum of four products:

        $$
        \frac{q_i\cdot k_j}{\sqrt{d_k}}=\frac{1}{\sqrt{d_k}}\Big(
        e_iW^Q(e_jW^K)^{\top}+e_iW^Q(p_jW^K)^{\top}+p_iW^Q(e_jW^K)^{\top}+p_iW^Q(p_jW^K)^{\top}\Big)
        $$
        """)
    )
    kinds, heads, more = st.columns([5, 2, 2], vertical_alignment="bottom")
    choose_one("Side", SPLIT, {side: KIND_NAMES[kind] for side, kind in SIDES.items()}, kinds)
    kind, head = _kind_and_head(trace)
    with heads:
        names = [f"Head {i + 1}" for i in range(trace.attention(kind).shape[1])]
        numbered(
            "split", HEAD, "Head", names, head, lambda: url_state.store({KIND: kind, LAYER: 1}),
            label_visibility="collapsed",
        )  # fmt: skip
    split = computed(view, _split(kind, head))
    n_numbers = split.logits.size * (len(split.parts) + 1)
    name = exhibits.split_name(kind, head)
    download_below(more, view, name, exhibits.content_and_position, n_numbers, kind=kind, head=head)
    show(exhibits.split_component(split, trace), key="split")
    deviations = ", ".join(
        f"{exhibits.SPLIT_NAMES[name]} {exhibits.within_rows(values, split.mask):.2f}"
        for name, values in split.parts.items()
    )
    bias = "" if split.bias is None else " The fifth part comes from the biases of W_Q and W_K."
    st.caption(
        f"Variation within a row (root mean square): {deviations}. The softmax ignores what is "
        "constant in a row, so this shows whether the head works by content or by position."
        f"{bias}"
    )
    total = np.sum(list(split.parts.values()), axis=0, dtype=np.float64)
    masked = np.where(split.mask, total, -np.inf)
    powers = np.exp(masked - masked.max(axis=1, keepdims=True))
    weights = powers / powers.sum(axis=1, keepdims=True)
    map_difference = float(np.abs(weights - trace.attention(split.kind)[0, split.head]).max())
    st.markdown(
        f"The parts add up to the model's own logits within **{split.residual:.1e}** (the largest "
        f"logit is {np.abs(split.logits).max():.1f}; a float32 has seven digits). The softmax of "
        f"their sum is the recorded attention map within **{map_difference:.1e}**."
    )
    if note := stored_note(get_translator(view).model):
        st.caption(note)
    url_state.write_url()


def _split(kind: AttentionKind, head: int) -> Computation[LogitSplit]:
    return Computation(
        "split", (kind, head),
        lambda model, trace: split_logits(model.model, trace, kind, head),
    )  # fmt: skip
