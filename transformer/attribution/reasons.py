"""Why a head looks at a key: its score, split into what query and key are made of.

The vectors that W_Q and W_K read are sums: the token's embedding, its position, the outputs of
earlier heads and networks, and biases. LayerNorms on the way keep the scale that they have in this
sentence, which makes them linear. So a score q . k / sqrt(d_k) is a sum over pairs of parts, one of
the query and one of the key; relative positions add their own term.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from transformer.hooks import Record, Site
from transformer.model import Transformer
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.parts import Part, parts_before, read, without
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, literals


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
