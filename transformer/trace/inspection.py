"""All numbers of one query in one head (sections 3.2.1 and 3.2.2).

Hooks record the numbers while the model runs. Only the weights without division by sqrt(d_k), which
no model computes, are computed here.
"""

import math
from contextlib import suppress
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.hooks import Chain, Complete, HeadGates, Hook, Hooks, Name, Record, Site
from transformer.kernels import causal_mask
from transformer.trace.building import to_array
from transformer.trace.records import HeadStages, Trace, Weighing
from transformer.types import AttentionKind, literals


class BlockValues(NamedTuple):
    """Values of one attention block for a trace's tokens; n queries, m keys."""

    block: MultiHeadAttention  # the projections
    x_queries: Tensor  # [n, d_model], input of W_Q
    x_keys: Tensor  # [m, d_model], input of W_K and W_V
    q: Tensor  # [H, n, d_k]
    k: Tensor  # [H, m, d_k]
    v: Tensor  # [H, m, d_v]
    scores: Tensor  # [H, n, m], q k^T / sqrt(d_k) plus relative positions, before the mask
    mask: Tensor  # [n, m] bool; True = may attend
    weights: Tensor  # [H, n, m]
    heads: Tensor  # [H, n, d_v], before gates
    output: Tensor  # [n, d_model]
    relative: Tensor | None = None  # [H, n, m], terms of relative positions in the scores


class Inspectable(Protocol):
    """A model whose heads can be inspected: a `Transformer`, or one stack of its blocks."""

    def __call__(self, src: Tensor, tgt_in: Tensor, hooks: Hooks) -> Tensor:
        """Read src [B, S] and tgt_in [B, T]; the input of a missing stack is empty."""

    def attention_block(self, kind: AttentionKind, layer: int) -> MultiHeadAttention:
        """Return the attention block of a kind and layer."""

    def distances(self, kind: AttentionKind, n_queries: int, n_keys: int) -> Tensor | None:
        """Return relative-position terms of scores, [1, H, queries, keys]."""


@literals
def inspect_head(
    model: Inspectable, trace: Trace, kind: AttentionKind, layer: int, head: int, query: int, *,
    gates: HeadGates | None = None,
) -> HeadStages:  # fmt: skip
    """Follow one query of a trace's tokens through one head.

    Args:
        layer, head, query: 0-based.
        gates: head gates, also of earlier layers.

    Raises: `ValueError` for a layer, head or query out of range.
    """
    n_layers, n_heads, n_queries, _ = trace.attention(kind).shape
    for name, value, limit in (("layer", layer, n_layers), ("head", head, n_heads),
                               ("query", query, n_queries)):  # fmt: skip
        check_place(name, value, limit)
    with torch.inference_mode():
        inside = record_block(model, trace, kind, layer, hooks=gates)
        table = None if gates is None else gates.of_layer(kind, layer)
        gate = 1.0 if table is None else float(table[..., head])
        return _follow(inside, (kind, layer, head, query), trace, gate)


def check_place(name: str, value: int, limit: int) -> None:
    """Raise `ValueError` for a 0-based index out of range."""
    if not 0 <= value < limit:
        raise ValueError(f"{name}={value} does not exist; there are 0 to {limit - 1}")


def record_block(
    model: Inspectable, trace: Trace, kind: AttentionKind, layer: int, *, hooks: Hook | None = None,
) -> BlockValues:  # fmt: skip
    """Run a trace's tokens through the model up to the end of one attention block.

    Args: hooks: applied during the pass; values that they replace are recorded after replacement.
    """
    names: tuple[Name, ...] = ("input", "q", "k", "v", "scores", "weights", "output")
    # Heads are recorded before hooks scale them, all other values after hooks.
    heads = Record([Site.of(kind, layer, "heads")])
    memory = Site("encoder", None, "final", "hidden")
    sites = [Site.of(kind, layer, name) for name in names]
    record = Record([*sites, *([memory] if kind == "cross" else [])], stop=True)
    block = model.attention_block(kind, layer)
    device = block.w_q.weight.device

    def row(ids: tuple[int, ...]) -> Tensor:  # [1, n]
        return torch.tensor([ids], dtype=torch.long, device=device)

    with suppress(Complete):
        model(row(trace.src_ids), row(trace.tgt_ids), Chain(heads, hooks, record))

    def value(name: Name) -> Tensor:
        return record[Site.of(kind, layer, name)][0]

    scores = value("scores")
    n, m = scores.shape[1:]
    relative = model.distances(kind, n, m)
    mask = torch.ones(n, m, dtype=torch.bool, device=device)  # a trace holds no padding
    return BlockValues(
        block, value("input"), record[memory][0] if kind == "cross" else value("input"),
        value("q"), value("k"), value("v"), scores,
        causal_mask(n, m, device) if kind == "decoder_self" else mask, value("weights"),
        heads[Site.of(kind, layer, "heads")][0], value("output"),
        None if relative is None else relative[0],
    )  # fmt: skip


def _follow(
    inside: BlockValues, at: tuple[AttentionKind, int, int, int], trace: Trace, gate: float
) -> HeadStages:
    (kind, _, head, query), block = at, inside.block
    q, keys, values = inside.q[head, query], inside.k[head], inside.v[head]  # [d_k], [m, d_k], ...
    row, root = inside.mask[query], math.sqrt(block.d_k)
    w_o = block.w_o.weight[:, head * block.d_v : (head + 1) * block.d_v]  # [d_model, d_v]

    def weighing(logits: Tensor, weights: Tensor, output: Tensor) -> Weighing:
        return Weighing(
            logits=to_array(logits),
            masked=to_array(logits.masked_fill(~row, -math.inf)),
            weights=to_array(weights),
            weighted=to_array(weights[:, None] * values),
            output=to_array(output),
            contribution=to_array(w_o @ (gate * output)),
        )

    scores = inside.scores[head, query]  # [m]
    relative = None if inside.relative is None else inside.relative[head, query]  # [m]
    dots = (scores if relative is None else scores - relative) * root
    bare = dots if relative is None else dots + relative
    unscaled = bare.masked_fill(~row, -math.inf).softmax(0)
    query_tokens, key_tokens = trace.axis_tokens(kind)
    bias = block.w_o.bias
    output = inside.output[query]
    return HeadStages(
        *at,
        query_token=query_tokens[query],
        key_tokens=key_tokens,
        x_query=to_array(inside.x_queries[query]),
        x_keys=to_array(inside.x_keys),
        q=to_array(q),
        keys=to_array(keys),
        values=to_array(values),
        products=to_array(q * keys),
        dots=to_array(dots),
        mask=row.cpu().numpy(),
        scaled=weighing(scores, inside.weights[head, query], inside.heads[head, query]),
        unscaled=weighing(bare, unscaled, unscaled @ values),
        gate=gate,
        w_o=to_array(w_o.T, copy=True),
        block_output=to_array(output),
        bias=to_array(torch.zeros_like(output) if bias is None else bias, copy=True),
        has_bias=bias is not None,
        relative=None if relative is None else to_array(relative),
    )
