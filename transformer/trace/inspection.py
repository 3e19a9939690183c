"""All numbers of one query in one head (sections 3.2.1 and 3.2.2), and layer 1's logits split.

Hooks record the numbers while the model runs. Only the weights without division by sqrt(d_k), which
no model computes, are computed here.

Before the first block of a post-norm model, a token's vector is a sum x_i = e_i + p_i of its
embedding times sqrt(d_model) (section 3.4) and its positional encoding (3.5). W_Q and W_K are
linear, so q_i . k_j is a sum of four products:

    (e_i + p_i) W_Q W_K^T (e_j + p_j)^T = e_i..e_j + e_i..p_j + p_i..e_j + p_i..p_j
"""

import copy
import math
from contextlib import suppress
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.hooks import Chain, Complete, HeadGates, Hook, Hooks, Name, Record, Site
from transformer.kernels import causal_mask
from transformer.model import Transformer
from transformer.trace.building import to_array
from transformer.trace.position_vectors import stack_input
from transformer.trace.records import HeadStages, LogitSplit, Trace, Weighing
from transformer.types import AttentionKind, Floats, literals


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
    _, key_tokens = trace.axis_tokens(kind)
    bias = block.w_o.bias
    output = inside.output[query]
    return HeadStages(
        *at,
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


def why_not(config: ModelConfig) -> str | None:
    """Return a sentence on why this config has no exact split, or None if it has one."""
    if config.positions == "relative":
        return (
            "This model adds no positions to its embeddings: each head adds a number for the "
            "distance of two tokens to their logit, which the other part of this page shows."
        )
    if config.norm == "pre":
        return (
            "This model is pre-norm: a LayerNorm comes between the sum of embedding and position "
            "and the first projections. It divides by a length that content and position share, "
            "so no exact split exists."
        )
    return None


@literals
def split_logits(model: Transformer, trace: Trace, kind: AttentionKind, head: int) -> LogitSplit:
    """Split the layer-1 logits of one head over a trace's tokens.

    Args:
        kind: "encoder_self" or "decoder_self"; keys of cross-attention come from the encoder.
        head: 0-based.

    Raises: `ValueError` for a model or kind without an exact split, or a head out of range.
    """
    reason = why_not(model.config)
    if reason is not None:
        raise ValueError(reason)
    if kind == "cross":
        raise ValueError("cross-attention has no split: its keys come from the encoder's output")
    check_place("head", head, trace.attention(kind).shape[1])
    with torch.inference_mode():
        inside = record_block(model, trace, kind, 0)
        block, source = inside.block, kind == "encoder_self"
        ids = trace.src_ids if source else trace.tgt_ids
        entering = stack_input(model, ids, "source" if source else "translation")
        logits: Floats = inside.scores[head].cpu().numpy()
        # In float64, so the residual is the model's rounding.
        exact = copy.deepcopy(block).double()
        e, p = (
            torch.from_numpy(part[None]).to(inside.scores.device, torch.float64)
            for part in (entering.content, entering.positions)
        )
        biases = _project(exact, torch.zeros_like(e), head)  # the biases alone
        (qe, ke), (qp, kp) = (
            [both - bias for both, bias in zip(_project(exact, part, head), biases, strict=True)]
            for part in (e, p)
        )
        parts = {
            "content_content": _products(qe, ke),
            "content_position": _products(qe, kp),
            "position_content": _products(qp, ke),
            "position_position": _products(qp, kp),
        }
        if block.w_q.bias is not None:
            q, k = qe + qp, ke + kp
            parts["bias"] = _products(biases[0], k + biases[1]) + _products(q, biases[1])
    total = np.sum(list(parts.values()), axis=0)
    return LogitSplit(
        kind=kind,
        head=head,
        tokens=trace.axis_tokens(kind)[0],
        parts={name: part.astype(np.float32) for name, part in parts.items()},
        logits=logits.astype(np.float32),
        mask=inside.mask.cpu().numpy(),
        residual=float(np.abs(total - logits).max()),
    )


def _project(block: MultiHeadAttention, x: Tensor, head: int) -> tuple[Tensor, Tensor]:
    """Return queries and keys [n, d_k] of one head."""
    return block.queries(x)[0, head], block.keys_values(x).k[0, head]


def _products(q: Tensor, k: Tensor) -> Floats:
    """Return every q . k / sqrt(d_k), [n, m]."""
    logits: Floats = (q @ k.T / math.sqrt(q.size(1))).cpu().numpy()
    return logits
