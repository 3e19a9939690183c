"""Figure 1 of the paper for one checkpoint, with a sentence's numbers in every block.

The visitor chooses a layer, a source token and a decoder row in the browser, which redraws and
reports the choice. A click on a block with its own page is a separate report.
"""

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformer.config import ModelConfig
from transformer.trace.records import StackName, Stream, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats
from ui.components.packing import Component, fields, floats, labels, signed_colours

#: Blocks whose view is below the drawing.
BLOCKS = ("decoder_ffn", "encoder_ffn", "decoder_stream", "encoder_stream")
#: Pages that a block can open.
TARGETS = ("attention", "head", "tokens", "positions", "translate")
#: Vector components that are drawn.
STRIP = 48
#: Block descriptions.
_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))


@dataclass(frozen=True)
class PlanChoice:
    """A choice in the drawing; indices count from 0."""

    layer: int  # open layer of the deeper stack; the other opens its last layer if it has fewer
    source: int  # source position
    row: int  # decoder row
    block: str  # one of `BLOCKS`, whose view is below


@dataclass(frozen=True)
class Opened:
    """A clicked block with its own page; indices count from 0."""

    page: str  # page address
    stack: StackName
    kind: str  # kind of attention, "" for other blocks
    layer: int
    head: int


@dataclass(frozen=True)
class Limits:
    """Numbers of layers, source tokens, decoder rows and heads."""

    layers: int
    sources: int
    rows: int
    heads: int


def parse_choice(reported: Any, limits: Limits) -> PlanChoice | None:
    """Return the reported choice, or None if it is invalid."""
    report = fields(
        reported, layer=range(limits.layers), source=range(limits.sources),
        row=range(limits.rows), block=BLOCKS,
    )  # fmt: skip
    return None if report is None else PlanChoice(**report)


def parse_opened(reported: Any, limits: Limits) -> Opened | None:
    """Return the opened block, or None if the report is invalid."""
    report = fields(
        reported, page=TARGETS, stack=("encoder", "decoder"), kind=("", *ATTENTION_KINDS),
        layer=range(limits.layers), head=range(limits.heads),
    )  # fmt: skip
    return None if report is None else Opened(**report)


def limits_of(stream: Stream, trace: Trace) -> Limits:
    """Return the limits for a sentence."""
    return Limits(
        layers=max(len(stream.encoder.hidden), len(stream.decoder.hidden)),
        sources=len(trace.src_tokens),
        rows=len(trace.tgt_tokens),
        heads=max(trace.encoder_self.shape[1], trace.decoder_self.shape[1]),
    )


def strongest(maps: Floats) -> Floats:
    """Return head, key and size of the largest weight for every layer and query.

    Shapes: [L, H, n, m] to [L, n, 3].
    """
    n_keys = maps.shape[3]
    flat = maps.transpose(0, 2, 1, 3).reshape(maps.shape[0], maps.shape[2], -1)  # [L, n, H m]
    best = flat.argmax(axis=-1)
    weights = np.take_along_axis(flat, best[..., None], axis=-1)[..., 0]
    return np.stack([best // n_keys, best % n_keys, weights], axis=-1).astype(np.float32)


def plan_component(
    stream: Stream, trace: Trace, config: ModelConfig, chosen: PlanChoice
) -> Component[PlanChoice]:
    """Return the drawing as a component; `parse_opened` reads its event `open`.

    The body holds the arrays in the order of `read` in plan.js.
    """
    stacks, numbers, strips = [], [], []
    kinds: dict[StackName, tuple[AttentionKind, ...]] = {
        "encoder": ("encoder_self",), "decoder": ("decoder_self", "cross"),
    }  # fmt: skip
    for name, of in kinds.items():
        states = stream.stack(name)
        depth, d_model = len(states.hidden), config.d_model
        stacks.append({
            "name": name,
            "depth": depth,
            "blocks": list(states.blocks),
            "kinds": list(of),
            "tokens": labels(states.tokens, 18),
            "strip": min(STRIP, d_model),
        })  # fmt: skip
        looks = np.stack([strongest(trace.attention(kind)) for kind in of], axis=1)
        numbers += [
            states.norms, states.added_norms, states.shares,
            states.n_firing, looks,
            np.linalg.norm(states.leaving, axis=-1),
        ]  # fmt: skip
        # The first vector components after every step as levels of one signed scale per stack:
        # [steps, n, D]. The largest 1% are clipped.
        steps = np.concatenate([
            states.entering[None], states.hidden.reshape(-1, *states.entering.shape)
        ])[..., :STRIP]  # fmt: skip
        limit = float(np.quantile(np.abs(steps), 0.99)) or 1.0
        levels = np.rint((np.clip(steps / limit, -1, 1) + 1) * 127.5)
        strips.append(levels.astype(np.uint8).tobytes())
    header = {
        "label": f"The whole model, {len(stream.encoder.hidden)} encoder and "
        f"{len(stream.decoder.hidden)} decoder layers",
        "pre": stream.pre_norm,
        "stacks": stacks,
        "predicted": labels(trace.predicted_tokens, 18),
        "probabilities": np.exp(trace.log_probs).round(4).tolist(),
        "words": words_for(config),
        "d_model": config.d_model,
        "neurons": [config.d_ff, config.decoder_inner],
        "signed": signed_colours(),
    }
    limits = limits_of(stream, trace)
    return Component(
        "plan", header, floats(numbers) + b"".join(strips), choice=asdict(chosen),
        parse=lambda reported: parse_choice(reported, limits),
    )  # fmt: skip


def words_for(config: ModelConfig) -> dict[str, dict[str, str]]:
    """Return a model's block descriptions by their id in layout.js."""
    d_k = config.d_k
    sizes = {
        "model": config.d_model, "source": config.vocab_size, "target": config.target_vocab_size,
        "encoder_heads": config.n_heads, "encoder_width": d_k or config.d_model // config.n_heads,
        "decoder_heads": config.decoder_heads,
        "decoder_width": d_k or config.d_model // config.decoder_heads,
        "encoder_inner": config.d_ff, "decoder_inner": config.decoder_inner,
        "scaled": f", times √{config.d_model}" if config.scale_embedding else "",
    }  # fmt: skip
    words = {
        name: {part: text.format(**sizes) for part, text in texts.items()}
        for name, texts in _WORDS.items()
    }
    return words | {"norm": words[f"{config.norm}-norm"]}
