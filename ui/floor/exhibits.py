"""The Floor plan's figures."""

from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from figures.labels import numbered
from transformer.trace.records import StackName, Trace
from transformer.trace.stream import read_feed_forward
from transformer.trace.whole import record_whole
from transformer.translator import Translator
from ui.components.plan import PlanChoice, plan_component
from ui.export.programs import facts_of

_BLOCKS = {"self": "self-attention", "cross": "cross-attention", "feed_forward": "feed-forward"}


def feed_forward_name(stack: StackName, layer: int, position: int) -> str:
    """Return the file stem of a network's figure; `layer` and `position` count from 0."""
    return file_stem("feed-forward", stack, "layer", layer + 1, "token", position + 1)


def feed_forward(
    model: Translator, trace: Trace, stack: StackName = "decoder", layer: int = 0,
    position: int = 0, *, source: int = 0, row: int = 0,
) -> Exhibit:  # fmt: skip
    """Return what a feed-forward network adds to a token, and its neurons, as a figure.

    Args:
        layer, position: the network's layer and the token, from 0.
        source, row: the offline plan's source token and translation step, from 0.
    """
    stream = model.stream(trace)
    reading = read_feed_forward(model.model, model.tokenizer.target, stream, stack, layer, position)
    parts: list[Series] = []
    arrays = {name: getattr(reading, name) for name in ("added", "inner", "neurons", "sizes")}
    caption = "Activations only: in the encoder, no neuron reaches the output matrix (section 3.3)."
    if reading.promoted is not None:
        tokens = numbered(reading.promoted.tokens)
        parts.append(Series("added to the logits", tokens, {"logit": reading.promoted.logits},
                            "token", "logit", "bar"))  # fmt: skip
        arrays |= {"promoted_ids": reading.promoted.ids, "promoted_logits": reading.promoted.logits}
        exact = "exact" if reading.exact else "read as if no layer followed"
        caption = (
            f"Logits that the network adds, for the tokens that it raises most ({exact}); and its "
            "neurons (section 3.3)."
        )
    axis, neurons = "neuron", tuple(str(neuron + 1) for neuron in reading.neurons)
    if reading.neuron_promoted:
        axis = "neuron, and the token it promotes"
        neurons = tuple(
            f"{neuron} {promoted.tokens[0]}".rstrip()
            for neuron, promoted in zip(neurons, reading.neuron_promoted, strict=True)
        )
    activations = {"activation": reading.inner[reading.neurons]}
    parts.append(Series("neurons that fire most", neurons, activations, axis, "activation", "bar"))
    return Exhibit(
        name=feed_forward_name(stack, layer, position),
        title=f"Feed-forward network of {stack} layer {layer + 1}: {position + 1} {reading.token}",
        caption=caption,
        parts=tuple(parts),
        arrays=arrays,
        facts=facts_of(trace),
        offline=_drawing(model, trace, source, row, f"{stack}.{layer + 1}.ffn"),
        columns=1,
    )


def stream_name(stack: StackName) -> str:
    """Return the file stem of a stream's figure."""
    return file_stem("residual stream", stack)


def residual_stream(
    model: Translator, trace: Trace, stack: StackName = "decoder", position: int = 0, *,
    layer: int = 0, source: int = 0, row: int = 0,
) -> Exhibit:  # fmt: skip
    """Return each block's share of a stack's stream, and the stream's length, as a figure.

    Args:
        position: the token whose line is drawn beside the mean, from 0.
        layer, source, row: the offline plan's layer, source token and translation step, from 0.
    """
    stream = model.stream(trace).stack(stack)
    blocks = tuple(
        f"{number} {_BLOCKS[block]}"
        for number in range(1, len(stream.hidden) + 1)
        for block in stream.blocks
    )
    tokens, shares, norms = numbered(stream.tokens), stream.shares, stream.norms
    lines = {tokens[position]: norms[:, position], "mean of all tokens": norms.mean(axis=1)}
    return Exhibit(
        name=stream_name(stack),
        title=f"Residual stream of the {stack}",
        caption="A block's share is |added| / (|stream| + |added|); the stream's length is "
        "measured at the input and after each block (section 3.1).",
        parts=(
            Panel("share of each block", shares.reshape(len(blocks), -1), blocks, tokens,
                  "block", "token", quantity="share"),
            Series("length of the stream", ("input", *blocks), lines, "block", "length"),
        ),
        arrays={"shares": shares, "norms": norms, "added": stream.added_norms},
        facts=facts_of(trace),
        offline=_drawing(model, trace, source, row, f"{stack}.{layer + 1}"),
        columns=1,
    )  # fmt: skip


def _drawing(model: Translator, trace: Trace, source: int, row: int, focus: str) -> Offline:
    whole = record_whole(model.model, model.tokenizer.target, trace)
    return plan_component(whole, trace, model.config, PlanChoice(source, row, focus)).offline()
