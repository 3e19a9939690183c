"""Maps of a measure in place of weights, and the parts of a score: why a head looks at a key.

    trace = measured(model, trace, "norm")
    trace.attention("cross")                      # [L, H, T, S], rows are shares of norms
    trace.cells.wide["cross"][2, -1]              # all heads of layer 3 together

Rows of "norm", "zeroing" and "contribution" are shares: each row is divided by its sum, which for
the contribution of a cross-attention block counts the residual stream. "effect" is the signed
change of the token's log-probability, in nats, measured for some places alone.

The vectors that W_Q and W_K read are sums: the token's embedding, its position, the outputs of
earlier heads and networks, and biases. LayerNorms on the way keep the scale that they have in this
sentence, which makes them linear. So a score q . k / sqrt(d_k) is a sum over pairs of parts, one of
the query and one of the key; relative positions add their own term.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from transformer.attribution.edges import edges, effects, row_shares
from transformer.config import ModelConfig
from transformer.hooks import Record, Site
from transformer.measures.heads import key_classes, widen
from transformer.model import Transformer
from transformer.search.request import excluded
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.parts import Part, parts_before, read, without
from transformer.trace.records import CellMeasure, Cells, Trace
from transformer.trace.tracer import Tracer
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, InputError, Report, literals


@dataclass(frozen=True, eq=False)
class Reasons:
    """One score of one head, split by the parts of query and key."""

    place: tuple[AttentionKind, int, int, int, int]  # kind, layer, head, query, key, 0-based
    query_parts: tuple[Part, ...]  # [P]
    key_parts: tuple[Part, ...]  # [K]
    shares: Floats  # [P, K], which add up to the score with `relative`
    relative: float  # term of relative positions
    score: float  # before the softmax and the mask

    def grouped(self, most: int) -> tuple[list[Part | None], list[Part | None], Floats]:
        """Return the largest parts of query and key in their order, and their shares.

        Args: most: parts a side; all others together follow as None.
        """
        shares = self.shares
        sides: list[list[Part | None]] = []
        for axis, parts in ((1, self.query_parts), (0, self.key_parts)):
            sizes = np.abs(self.shares).sum(axis)
            kept = sorted(np.argsort(-sizes, kind="stable")[:most].tolist())
            rest = len(kept) < len(parts)
            together = np.delete(shares, kept, 0).sum(0, keepdims=True)
            shares = np.concatenate([shares[kept], together[: int(rest)]]).T
            sides.append([*(parts[at] for at in kept), *([None] if rest else [])])
        return sides[0], sides[1], shares

    def share_of(self, part: Part) -> float:
        """Return the sum of all shares with this part, on either side."""
        rows = [p for p, own in enumerate(self.query_parts) if own == part]
        columns = [k for k, own in enumerate(self.key_parts) if own == part]
        shares = self.shares.astype("f8")
        both = shares[rows][:, columns].sum()
        return float(shares[rows].sum() + shares[:, columns].sum() - both)


@literals
def reasons(
    model: Transformer, trace: Trace, kind: AttentionKind, layer: int, head: int, query: int,
    key: int,
) -> Reasons:  # fmt: skip
    """Split the score of one query and one key in one head.

    Args: layer, head, query, key: 0-based.

    Raises: `ValueError` for a place out of range.
    """
    for name, value, limit in zip(
        ("layer", "head", "query", "key"), (layer, head, query, key),
        trace.attention(kind).shape, strict=True,
    ):  # fmt: skip
        check_place(name, value, limit)
    names, site = ("hidden", "output", "heads", "scores"), Site.of(kind, layer, "scores")
    record = read(model, trace, Record(lambda site: site.name in names))
    block = model.attention_block(kind, layer)
    ends = site, Site("encoder", None, "final", "hidden") if kind == "cross" else site
    with torch.inference_mode():
        queries, keys = (
            parts_before(model, trace, record, end, at)
            for end, at in zip(ends, (query, key), strict=True)
        )
        q, k = (
            _projected(parts, linear, head, block.d_k)
            for parts, linear in ((queries, block.w_q), (keys, block.w_k))
        )
        shares = q @ k.T / math.sqrt(block.d_k)
        distances = model.distances(kind, *trace.attention(kind).shape[2:])
        relative = 0.0 if distances is None else float(distances[0, head, query, key])
        score = float(record[site][0, head, query, key])
    place = kind, layer, head, query, key
    return Reasons(place, tuple(queries), tuple(keys), to_array(shares), relative, score)


class Trial(NamedTuple):
    """A removed part: the change of the score."""

    part: Part
    predicted: float  # without the part's shares
    measured: float


def trials(model: Transformer, trace: Trace, split: Reasons, most: int = 1) -> list[Trial]:
    """Remove the largest parts one by one and measure the score, one pass for each.

    Args: split: from `reasons`, of the same model and trace.
    """
    parts = dict.fromkeys((*split.query_parts, *split.key_parts))
    shares = {part: split.share_of(part) for part in parts if part.name != "bias"}
    largest = sorted(shares, key=lambda part: -abs(shares[part]))[:most]
    return [
        Trial(part, -shares[part], score_without(model, trace, *split.place, part) - split.score)
        for part in largest
    ]


def score_without(
    model: Transformer, trace: Trace, kind: AttentionKind, layer: int, head: int, query: int,
    key: int, part: Part,
) -> float:  # fmt: skip
    """Return the score of a query and a key when a part is removed at all positions.

    All that follows the part changes too, so the score is not exactly that without its shares.

    Raises: `ValueError` for "bias", which no single place adds.
    """
    site = Site.of(kind, layer, "scores")
    record = read(model, trace, Record([site]), without(model, trace, part))
    return float(record[site][0, head, query, key])


def _projected(parts: dict[Part, Tensor], linear: nn.Linear, head: int, d_k: int) -> Tensor:
    """Project parts to one head's queries or keys, [P, d_k]; biases join the part "bias"."""
    rows = slice(head * d_k, (head + 1) * d_k)
    projected = torch.stack([*parts.values()]) @ linear.weight[rows].double().T
    if linear.bias is not None:
        place = next(p for p, part in enumerate(parts) if part.name == "bias")
        projected[place] += linear.bias[rows].double()
    return projected


#: A kind with a layer and a head, 0-based; None for all of them together.
Place = tuple[AttentionKind, int | None, int | None]

#: Maximum weights in a trace for other measures, each of which takes as much memory again.
MOST_WEIGHTS = 30_000_000

#: Most edges of one kind for which effects are measured: 256 by 256 tokens.
MOST_EDGES = 65_536


def why_weight_only(model: Tracer) -> str | None:
    """Return why a model has weights but no other measure, as one sentence, or None."""
    if hasattr(getattr(model, "model", None), "attention_block"):
        return None
    if model.lacks("any_sentence") is not None:
        return (
            "This file holds recorded attention; other measures need the model's value vectors "
            "and a model that runs."
        )
    return (
        "Other measures split the blocks of this project's models; this one is run by another "
        "library, and its maps show weights."
    )


def why_too_long(trace: Trace) -> str | None:
    """Return why a trace has too many weights for other measures, or None."""
    size = sum(trace.attention(kind).size for kind in ATTENTION_KINDS)
    if size <= MOST_WEIGHTS:
        return None
    return f"Measures are made for up to {MOST_WEIGHTS:,} weights; this text has {size:,}."


@literals
def why_no_effect(kind: AttentionKind, n: int, m: int) -> str | None:
    """Return why the edges of a kind with n queries and m keys have no effect, or None."""
    if kind == "encoder_self":
        return (
            "An edge of an encoder belongs to no step that writes a token: what it changes is read "
            "everywhere, so no single token's probability is its effect."
        )
    if n * m > MOST_EDGES:
        return f"Effects are measured for up to {MOST_EDGES:,} edges; this map has {n * m:,}."
    return None


@literals
def measured(
    model: Tracer, trace: Trace, measure: CellMeasure = "weight", *,
    kinds: Sequence[AttentionKind] = ATTENTION_KINDS, places: Sequence[Place] | None = None,
    words_only: bool = False, progress: Report | None = None,
) -> Trace:  # fmt: skip
    """Return a trace whose maps hold a measure.

    Args:
        model: the model of the trace.
        kinds: kinds of attention to measure; the maps of others are 0.
        places: for "effect": maps to measure, one cut in every step each; others stay 0. By
            default, all layers and heads together, for every kind of the decoder.
        words_only: set the columns of other keys to 0 and divide shares by what is left.
        progress: called with (blocks or steps done, all of them); may raise to stop.

    Raises: `InputError` for a model or places without this measure.
    """
    gap, kinds = 0.0, [kind for kind in kinds if trace.attention(kind).size]
    shapes = {kind: np.add(trace.attention(kind).shape, (1, 1, 0, 0)) for kind in ATTENTION_KINDS}
    wide = {kind: np.zeros(shape, np.float32) for kind, shape in shapes.items()}
    if measure == "weight":
        wide |= {kind: widen(trace.attention(kind)) for kind in kinds}
    elif (reason := why_weight_only(model) or why_too_long(trace)) is not None:
        raise InputError(reason)
    elif measure == "effect":
        if places is None:
            places = [(kind, None, None) for kind in kinds if kind != "encoder_self"]
        _fill_effects(wide, model, trace, places, progress)
    else:
        network: Any = model
        of = edges(network.model, trace, measure, kinds=kinds, progress=progress)
        gap = of.gap
        for kind in kinds:
            blocks = row_shares(of.blocks[kind], of.streams[kind])[:, None]  # [L, 1, n, m]
            maps = np.concatenate([row_shares(of.heads[kind]), blocks], axis=1)
            wide[kind] = np.concatenate([maps, maps.mean(0, keepdims=True)])  # and over layers
    if words_only:
        wide = {kind: _words(trace, kind, maps, measure) for kind, maps in wide.items()}
    return Cells(measure, wide, words_only, gap).instead_of_weights(trace)


def _fill_effects(
    wide: dict[AttentionKind, Floats], model: Any, trace: Trace, places: Sequence[Place],
    progress: Report | None,
) -> None:  # fmt: skip
    for done, (kind, layer, head) in enumerate(places):
        if (reason := why_no_effect(kind, *trace.attention(kind).shape[2:])) is not None:
            raise InputError(reason)
        step = progress and partial(_step, progress, done, len(places))
        at = tuple(-1 if index is None else index for index in (layer, head))
        never = excluded(model.config) if isinstance(model.config, ModelConfig) else ()
        wide[kind][at] = effects(
            model.model, trace, kind, layer, head, excluded=never, progress=step
        )


def _step(progress: Report, done: int, count: int, at: int, most: int) -> None:
    progress(done * most + at, count * most)


def _words(trace: Trace, kind: AttentionKind, maps: Floats, measure: CellMeasure) -> Floats:
    special = trace.tgt_special if kind == "decoder_self" else trace.src_special
    classes = key_classes(trace.axis_tokens(kind)[1], special)
    kept = np.where([name == "word" for name in classes], maps, np.float32(0))
    return kept if measure == "effect" else row_shares(kept)
