"""Why a head looks at a key: its score, split into what query and key are made of.

The vectors that W_Q and W_K read are sums: the token's embedding, its position, the outputs of
earlier heads and networks, and biases. LayerNorms on the way keep the scale that they have in this
sentence, which makes them linear. So a score q . k / sqrt(d_k) is a sum over pairs of parts, one of
the query and one of the key; relative positions add a term of their own.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from transformer.edits.model import Skipped, WithoutResidual
from transformer.hooks import BLOCKS, Chain, HeadGates, Hook, Record, Replace, Site, Stack
from transformer.layers import Residual
from transformer.model import Transformer
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, literals


class Part(NamedTuple):
    """A part of a token's vector; layer and head are 0-based."""

    stack: Stack
    name: Literal["embedding", "position", "head", "feed_forward", "bias"]
    kind: AttentionKind | None = None  # of a head
    layer: int | None = None  # of a head or network
    head: int | None = None


class Place(NamedTuple):
    """A query and a key in a head, 0-based."""

    kind: AttentionKind
    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True, eq=False)
class Reasons:
    """One score of one head, split by the parts of query and key."""

    place: Place
    query_parts: tuple[Part, ...]  # [P]
    key_parts: tuple[Part, ...]  # [K]
    shares: Floats  # [P, K], which add up to the score with `relative`
    relative: float  # term of relative positions
    score: float  # before the softmax and the mask

    def largest(self) -> list[tuple[Part, Part, float]]:
        """Return all pairs of a query part and a key part, largest magnitude first."""
        pairs = [
            (query, key, float(self.shares[p, k]))
            for p, query in enumerate(self.query_parts)
            for k, key in enumerate(self.key_parts)
        ]
        return sorted(pairs, key=lambda pair: -abs(pair[2]))

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
    key: int, *, hooks: Hook | None = None,
) -> Reasons:  # fmt: skip
    """Split the score of one query and one key in one head.

    Args:
        layer, head, query, key: 0-based.
        hooks: hooks of the trace.

    Raises: `ValueError` for a place out of range.
    """
    for name, value, limit in zip(
        ("layer", "head", "query", "key"), (layer, head, query, key),
        trace.attention(kind).shape, strict=True,
    ):  # fmt: skip
        check_place(name, value, limit)
    names = ("hidden", "output", "heads", "scores")
    record = Record(lambda site: site.name in names)
    _read(model, trace, Chain(hooks, record))
    site = Site.of(kind, layer, "scores")
    block = model.attention_block(kind, layer)
    with torch.inference_mode():
        queries = _parts_before(model, trace, record, site, query)
        if kind == "cross":
            keys = _parts_before(
                model, trace, record, Site("encoder", None, "final", "hidden"), key
            )
        else:
            keys = _parts_before(model, trace, record, site, key)
        q, k = (
            _projected(parts, linear, head, block.d_k)
            for parts, linear in ((queries, block.w_q), (keys, block.w_k))
        )
        shares = q @ k.T / math.sqrt(block.d_k)
        distances = model.distances(kind, *trace.attention(kind).shape[2:])
        relative = 0.0 if distances is None else float(distances[0, head, query, key])
        score = float(record[site][0, head, query, key])
    place = Place(kind, layer, head, query, key)
    return Reasons(place, tuple(queries), tuple(keys), to_array(shares), relative, score)


class Trial(NamedTuple):
    """A part taken out: the change of the score."""

    part: Part
    predicted: float  # without the part's shares
    measured: float


def trials(model: Transformer, trace: Trace, split: Reasons, most: int = 1) -> list[Trial]:
    """Take the largest parts out one by one and measure the score, one pass for each.

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
    record = Record([site])
    _read(model, trace, Chain(_without(model, trace, part), record))
    return float(record[site][0, head, query, key])


def _without(model: Transformer, trace: Trace, part: Part) -> Hook:
    if part.kind is not None and part.layer is not None and part.head is not None:
        return HeadGates.of(model.config, {(part.kind, part.layer, part.head): 0.0})
    if part.name == "feed_forward":
        return Replace({Site(part.stack, part.layer, "feed_forward", "output"): torch.zeros_like})
    if part.name == "bias":
        raise ValueError("biases stand in many places; choose another part")
    content = _content(model, trace, part.stack)

    def rest(entering: Tensor) -> Tensor:
        return content if part.name == "position" else entering - content

    return Replace({Site(part.stack, None, "embedding", "hidden"): rest})


def _read(model: Transformer, trace: Trace, hooks: Hook) -> None:
    device = model.generator.weight.device
    src, tgt_in = (torch.tensor([ids], device=device) for ids in (trace.src_ids, trace.tgt_ids))
    with torch.inference_mode():
        model.decode(tgt_in, model.encode(src, hooks=hooks), hooks=hooks)


def _content(model: Transformer, trace: Trace, stack: Stack) -> Tensor:
    """Return the embeddings of a stack's tokens without positions, [1, n, d_model]."""
    ids = trace.src_ids if stack == "encoder" else trace.tgt_ids
    embedding = model.src_embedding if stack == "encoder" else model.tgt_embedding
    with torch.inference_mode():
        return model.content(torch.tensor([ids], device=embedding.weight.device), embedding)


def _parts_before(
    model: Transformer, trace: Trace, record: Record, end: Site, at: int
) -> dict[Part, Tensor]:
    """Return the parts [d_model] of one token's vector as a block reads it.

    Args: end: a site of the block; "final" for the stack's output.
    """
    stack = end.stack

    def value(site: Site) -> Tensor:  # [..., d]
        return record[site][0][..., at, :].double()

    stream = value(Site(stack, None, "embedding", "hidden"))
    content = _content(model, trace, stack)[0, at].double()
    bias = Part(stack, "bias")
    parts = {Part(stack, "embedding"): content, Part(stack, "position"): stream - content}
    parts[bias] = torch.zeros_like(content)
    for index, layer in enumerate(getattr(model, stack)):
        for block in BLOCKS[stack]:
            around: Residual = getattr(layer, f"around_{block}")
            if (index, block) == (end.layer, end.block):
                return _through(around.norm, stream, parts, bias) if around.pre else parts
            if isinstance(around, Skipped):
                continue
            site = Site(stack, index, block, "hidden")
            if isinstance(around, WithoutResidual):
                stream = torch.zeros_like(stream)
                parts = {part: torch.zeros_like(vector) for part, vector in parts.items()}
            stream = stream + value(site._replace(name="output"))
            if site.kind is None:
                output = value(site._replace(name="output"))
                parts[Part(stack, "feed_forward", None, index)] = output
            else:
                w_o = model.attention_block(site.kind, index).w_o
                heads = value(site._replace(name="heads"))  # [H, d_v]
                rows = w_o.weight.double().view(len(content), *heads.shape)
                for head, vector in enumerate(torch.einsum("dhv,hv->hd", rows, heads)):
                    parts[Part(stack, "head", site.kind, index, head)] = vector
                if w_o.bias is not None:
                    parts[bias] = parts[bias] + w_o.bias.double()
            if not around.pre:
                parts, stream = _through(around.norm, stream, parts, bias), value(site)
    norm = model.encoder_norm if stack == "encoder" else model.decoder_norm
    return _through(norm, stream, parts, bias) if isinstance(norm, nn.LayerNorm) else parts


def _through(
    norm: nn.LayerNorm, total: Tensor, parts: dict[Part, Tensor], bias: Part
) -> dict[Part, Tensor]:
    """Take parts of a vector through a LayerNorm with its scale fixed."""
    scale = norm.weight.double() / (total.var(correction=0) + norm.eps).sqrt()
    new = {part: (vector - vector.mean()) * scale for part, vector in parts.items()}
    new[bias] = new[bias] + norm.bias.double()
    return new


def _projected(parts: dict[Part, Tensor], linear: nn.Linear, head: int, d_k: int) -> Tensor:
    """Project parts to one head's queries or keys, [P, d_k]; biases join the part "bias"."""
    rows = slice(head * d_k, (head + 1) * d_k)
    projected = torch.stack([*parts.values()]) @ linear.weight[rows].double().T
    if linear.bias is not None:
        place = next(p for p, part in enumerate(parts) if part.name == "bias")
        projected[place] += linear.bias[rows].double()
    return projected
