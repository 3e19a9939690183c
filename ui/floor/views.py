"""The Floor plan: the drawing, and below it a feed-forward network or a residual stream."""

from typing import Any

import streamlit as st

from figures.labels import code, show_token
from figures.stream import block_labels, neuron_bars, norm_lines, promoted_bars, share_map
from transformer.config import ModelConfig
from transformer.trace.records import Stream, Trace
from ui.attention.choice import AttentionSettings
from ui.components.mount import show
from ui.components.plan import BLOCKS, PlanChoice, limits_of, parse_opened, plan_component
from ui.core import url_state
from ui.core.glossary import word_start
from ui.core.layout import current_theme, draw_chart, section
from ui.core.view import View
from ui.core.widgets import choose_one
from ui.export.download import download_below
from ui.floor.choice import FloorChoice, keep, network_at, place_of
from ui.floor.exhibits import feed_forward, feed_forward_name, residual_stream, stream_name
from ui.frame.page import page_at, streamlit_page
from ui.head.choice import HeadSettings
from ui.work.desk import computed

NAMES = {
    "decoder_ffn": "Decoder's feed-forward",
    "encoder_ffn": "Encoder's feed-forward",
    "decoder_stream": "Decoder's stream",
    "encoder_stream": "Encoder's stream",
}
assert tuple(NAMES) == BLOCKS


def draw_plan(stream: Stream, trace: Trace, config: ModelConfig, chosen: PlanChoice) -> None:
    """Mount the drawing, which opens the page of a clicked block."""

    def opened() -> None:
        block = parse_opened(st.session_state["plan"].get("open"), limits_of(stream, trace))
        if block is None:
            return
        st.session_state["floor_open"] = block.page
        if not block.kind:
            return
        url_state.put_head(block.kind, block.layer, block.head)
        if block.page == "attention":
            url_state.put(AttentionSettings.display, "grid")
        else:
            query = chosen.source if block.stack == "encoder" else chosen.row
            url_state.put_index(HeadSettings.query, query)

    if (page := st.session_state.pop("floor_open", None)) is not None:
        st.switch_page(streamlit_page(page_at(page)))
    plan = plan_component(stream, trace, config, chosen)
    show(plan, key="plan", on_choose=keep, on_open_change=opened)


def draw_below(view: View, trace: Trace, stream: Stream, chosen: PlanChoice) -> None:
    """Draw the chosen view, a network's neurons or the stream, with its download."""
    names, more = st.columns([6, 1], vertical_alignment="center")
    choose_one("Below", FloorChoice.block, NAMES, names)
    stack, layer, position = place_of(chosen, stream)
    choice: dict[str, Any] = {
        "stack": stack, "position": position, "source": chosen.source, "row": chosen.row,
    }  # fmt: skip
    if chosen.block.endswith("ffn"):
        name = feed_forward_name(stack, layer, position)
        download_below(more, view, name, feed_forward, layer=layer, **choice)
        _draw_network(view, trace, stream, chosen)
    else:
        name = stream_name(stack)
        download_below(more, view, name, residual_stream, layer=chosen.layer, **choice)
        _draw_stream(stream, chosen)


def _draw_network(view: View, trace: Trace, stream: Stream, chosen: PlanChoice) -> None:
    stack, layer, position = place_of(chosen, stream)
    reading = computed(view, network_at(chosen, stream))
    residual, theme = stream.stack(stack), current_theme()
    share = float(residual.shares[layer, -1, position])
    where = f"{stack} layer {layer + 1}"
    words = (
        f"For {code(show_token(reading.token))}, **{residual.n_firing[layer, position]:,} of "
        f"{len(reading.inner):,}** neurons are above 0. Their output is **{share:.0%}** of its sum "
        f"with the stream. {word_start(residual.tokens)}"
    )
    if reading.promoted is None:
        picture = section(
            f"Neurons of {where}",
            f"{words}\n\nAn encoder neuron cannot be read as words: its row of $W_2$ goes "
            "to the layers above, never to the output matrix. So only activations appear here.",
        )
    else:
        note = (
            "No layer follows, so this is the network's exact effect on the logits: tokens on the "
            "right become more probable."
            if reading.exact
            else "The output matrix reads the network as if no layer followed. Later layers may "
            "change its effect."
        )
        picture = section(
            f"What the feed-forward network of {where} promotes", f"{words}\n\n{note}"
        )
        most = show_token(reading.promoted.tokens[0])
        alt = f"The tokens that the network raises and lowers most; it raises {most} most."
        bars = promoted_bars(reading, trace.predicted_tokens[position], theme)
        draw_chart(bars, alt, picture)
        picture = section(
            "Neurons that fire most",
            "Each neuron adds its row of $W_2$ times its activation, which the bar shows. Beside "
            "the bar are the tokens whose logits the row raises most.",
        )
    first = reading.neurons[0]
    alt = (
        f"The {len(reading.neurons)} neurons with the largest activations; neuron {first + 1} "
        f"leads with {reading.inner[first]:.2f}."
    )
    draw_chart(neuron_bars(reading, theme), alt, picture)


def _draw_stream(stream: Stream, chosen: PlanChoice) -> None:
    stack, _, position = place_of(chosen, stream)
    residual, theme = stream.stack(stack), current_theme()
    labels, shares, norms = block_labels(residual), residual.shares, residual.norms
    picture = section(
        f"How much each block of the {stack} adds",
        "A block adds its output to the stream. Its share is $|b|/(|x|+|b|)$: 0% changes nothing; "
        "50% is a vector as long as the stream itself.",
    )
    n = len(residual.tokens)
    alt = f"Shares of {len(labels)} blocks for {n} tokens; the largest is {shares.max():.0%}."
    draw_chart(share_map(shares.reshape(-1, n), labels, residual.tokens, theme), alt, picture)
    note = (
        "In this model (pre-norm), the stream is a plain sum, so it grows from block to block."
        if stream.pre_norm
        else "LayerNorm resets the length after every sum, so a block's share tells more than the "
        "length."
    )
    token = code(show_token(residual.tokens[position]))
    words = f"The bold line is {token}. {note} {word_start(residual.tokens)}"
    picture = section("How long the stream is", words)
    ends = f"from {norms[0, position]:.1f} to {norms[-1, position]:.1f} for the chosen token"
    alt = f"Stream length after each block, {ends}."
    draw_chart(norm_lines(norms, labels, residual.tokens, position, theme), alt, picture)
