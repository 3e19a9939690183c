"""The Floor plan: the drawing, and the view of a feed-forward network or of the stream below it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from figures.labels import code, show_token
from figures.stream import block_labels, neuron_bars, norm_lines, promoted_bars, share_map
from transformer.config import ModelConfig
from transformer.trace.records import FeedForwardReading, Stream, Trace
from ui.attention.choice import AttentionSettings
from ui.components.mount import show
from ui.components.plan import BLOCKS, PlanChoice, limits_of, parse_opened, plan_component
from ui.core import url_state
from ui.core.glossary import word_start
from ui.core.layout import current_theme, draw_chart, section
from ui.core.view import View
from ui.core.widgets import choose_one
from ui.export.download import download_button, figure_for
from ui.floor.choice import FloorChoice, keep, network_at, place_of
from ui.floor.exhibits import feed_forward, feed_forward_name, residual_stream, stream_name
from ui.frame.page import page_at, streamlit_page
from ui.head.choice import HeadSettings
from ui.work.desk import computed

_OPEN = "floor_open"

NAMES = {
    "decoder_ffn": "Decoder's feed-forward",
    "encoder_ffn": "Encoder's feed-forward",
    "decoder_stream": "Decoder's stream",
    "encoder_stream": "Encoder's stream",
}
assert tuple(NAMES) == BLOCKS


def draw_plan(stream: Stream, trace: Trace, config: ModelConfig, chosen: PlanChoice) -> None:
    """Mount the drawing, and follow clicks on it."""

    def opened() -> None:
        block = parse_opened(st.session_state["plan"].get("open"), limits_of(stream, trace))
        if block is None:
            return
        st.session_state[_OPEN] = block.page
        if not block.kind:
            return
        url_state.put_head(block.kind, block.layer, block.head)
        here = chosen.source if block.stack == "encoder" else chosen.row
        if block.page == "attention":
            url_state.put(AttentionSettings.display, "grid")
        else:
            url_state.put_index(HeadSettings.query, here)

    target = st.session_state.pop(_OPEN, None)
    if target is not None:
        st.switch_page(streamlit_page(page_at(target)))
    plan = plan_component(stream, trace, config, chosen)
    show(plan, key="plan", on_choose=keep, on_open_change=opened)


def draw_below(view: View, trace: Trace, stream: Stream, chosen: PlanChoice) -> None:
    """Draw the chosen view: a network's neurons, or the stream."""
    names, more = st.columns([6, 1], vertical_alignment="center")
    choose_one("Below", FloorChoice.block, NAMES, names)
    with more.container(horizontal=True, horizontal_alignment="right"):
        _offer(view, stream, chosen)
    if chosen.block.endswith("ffn"):
        _draw_network(view, trace, stream, chosen)
    else:
        _draw_stream(stream, chosen)


def _offer(view: View, stream: Stream, chosen: PlanChoice) -> None:
    stack, layer, position = place_of(chosen, stream)
    choice = {"stack": stack, "position": position, "source": chosen.source, "row": chosen.row}
    if chosen.block.endswith("ffn"):
        make = partial(figure_for, view, feed_forward, layer=layer, **choice)
        download_button(make, key="floor", name=feed_forward_name(stack, layer, position))
    else:
        make = partial(figure_for, view, residual_stream, layer=chosen.layer, **choice)
        download_button(make, key="floor", name=stream_name(stack))


def _draw_network(view: View, trace: Trace, stream: Stream, chosen: PlanChoice) -> None:
    stack, layer, position = place_of(chosen, stream)
    reading = computed(view, network_at(chosen, stream))
    held = stream.stack(stack)
    fired = int(held.n_firing[layer, position])
    share = float(held.shares[layer, -1, position])
    where = f"{stack} layer {layer + 1}"
    words = (
        f"For {code(show_token(reading.token))} **{fired:,} of {len(reading.inner):,}** neurons "
        f"are above 0. Their output is **{share:.0%}** of its sum with the stream. "
        f"{word_start(held.tokens)}"
    )
    theme = current_theme()
    if reading.promoted is None:
        place_for = section(
            f"Neurons of {where}",
            f"{words}\n\nIn the encoder, a neuron has no reading as words: its row of $W_2$ goes "
            "to the layers above, never to the output matrix. So only activations appear here.",
        )
    else:
        predicted = trace.predicted_tokens[position]
        place_for = section(
            f"What the feed-forward network of {where} says", f"{words}\n\n{_reading_note(reading)}"
        )
        most = show_token(reading.promoted.tokens[0])
        alt = f"Tokens that it raises and lowers most; it raises {most} most."
        draw_chart(promoted_bars(reading, predicted, theme), alt, place_for)
        place_for = section(
            "Neurons that fire most",
            "Each neuron adds its row of $W_2$ times its activation, shown as the bar. Beside it: "
            "the tokens whose logits that row raises most.",
        )
    first = reading.neurons[0]
    leads = f"neuron {first + 1} leads with {reading.inner[first]:.2f}"
    alt = f"The {len(reading.neurons)} neurons with the largest activations; {leads}."
    draw_chart(neuron_bars(reading, theme), alt, place_for)


def _reading_note(reading: FeedForwardReading) -> str:
    if reading.exact:
        return (
            "No layer follows, so this is its exact effect on the logits: tokens on the right "
            "become more probable."
        )
    return (
        "Read with the output matrix, as if no layer followed. Later layers may change its effect."
    )


def _draw_stream(stream: Stream, chosen: PlanChoice) -> None:
    stack, _, position = place_of(chosen, stream)
    held, theme = stream.stack(stack), current_theme()
    labels, shares, norms = block_labels(held), held.shares, held.norms
    token = code(show_token(held.tokens[position]))
    note = (
        "The stream is a plain sum here (pre-norm), so it grows from block to block."
        if stream.pre_norm
        else "LayerNorm resets the length after every sum, so a block's share tells more than the "
        "length."
    )
    picture = section(
        f"How much each block of the {stack} adds",
        "A block adds its output to the stream. Its share is $|b|/(|x|+|b|)$: 0% changes nothing, "
        "50% means a vector as long as the stream itself.",
    )
    n = len(held.tokens)
    alt = f"Shares of {len(labels)} blocks for {n} tokens; the largest is {shares.max():.0%}."
    draw_chart(share_map(shares.reshape(-1, n), labels, held.tokens, theme), alt, picture)
    picture = section(
        "How long the stream is", f"The bold line is {token}. {note} {word_start(held.tokens)}"
    )
    ends = f"from {norms[0, position]:.1f} to {norms[-1, position]:.1f} for the chosen token"
    alt = f"Length of the stream behind each block, {ends}."
    draw_chart(norm_lines(norms, labels, held.tokens, position, theme), alt, picture)
