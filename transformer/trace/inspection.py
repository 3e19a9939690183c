"""One query followed through one head, every number on the way (sections 3.2.1 and 3.2.2).

The model's own layers bring the tokens to the head, its own projections make q, k and v, and
`transformer.attention.attend` weighs them; nothing here defines attention a second time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention, attend, causal_mask
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.model import HeadGates, Transformer
from transformer.trace.records import HeadStages, Trace, Weighing
from transformer.types import AttentionKind, Floats


class Entering(NamedTuple):
    """What one attention block reads.

    Attributes:
        block: its projections.
        x_queries: [1, n, d_model].  x_keys: [1, m, d_model].
        allowed: [n, m] bool; True = may attend.
        gates: [H], or None for all ones.
    """

    block: MultiHeadAttention
    x_queries: Tensor
    x_keys: Tensor
    allowed: Tensor
    gates: Tensor | None


class Which(NamedTuple):
    """A query in a head, 0-based."""

    kind: AttentionKind
    layer: int
    head: int
    query: int


def inspect_head(
    model: Transformer,
    trace: Trace,
    kind: AttentionKind,
    layer: int,
    head: int,
    query: int,
    *,
    gates: HeadGates | None = None,
) -> HeadStages:
    """Follow one query of a trace's tokens through one head.

    Args:
        layer, head, query: 0-based.
        gates: factors on the heads' outputs, in every layer on the way too.

    Raises: `ValueError` naming what does not exist.
    """
    n_layers, n_heads, n_queries, _ = trace.attention(kind).shape
    for name, value, limit in (("layer", layer, n_layers), ("head", head, n_heads),
                               ("query", query, n_queries)):  # fmt: skip
        if not 0 <= value < limit:
            raise ValueError(f"{name}={value} does not exist; there are 0 to {limit - 1}")
    query_tokens, key_tokens = trace.axis_tokens(kind)
    with torch.inference_mode():
        entering = what_enters(model, trace, kind, layer, gates)
        return _follow(entering, Which(kind, layer, head, query), query_tokens[query], key_tokens)


def what_enters(
    model: Transformer,
    trace: Trace,
    kind: AttentionKind,
    layer: int,
    gates: HeadGates | None = None,
) -> Entering:
    """Run a trace's tokens through the model up to one attention block.

    Post-norm blocks read the residual stream, pre-norm blocks its LayerNorm. The keys of
    cross-attention come from the encoder's output.
    """
    gates = gates or HeadGates()
    device = model.src_embedding.weight.device
    src = torch.tensor([trace.src_ids], device=device)  # [1, S]
    if kind == "encoder_self":
        mask = model.source_mask(src)
        x = model.embed_source(src)
        for index, before in enumerate(model.encoder[:layer]):
            x, _ = before(x, mask, _gate(gates.encoder_self, index), False)
        block: EncoderLayer = model.encoder[layer]  # type: ignore[assignment]
        seen = block.around_self.enter(x)
        allowed = _allowed(seen, seen, mask)
        gate = _gate(gates.encoder_self, layer)
        return Entering(block.self_attention, seen, seen, allowed, gate)

    encoded = model.encode(src, gates=gates)
    x = model.embed_target(torch.tensor([trace.tgt_ids], device=device))  # [1, T, d_model]
    for index, before in enumerate(model.decoder[:layer]):
        self_gate, cross_gate = _gate(gates.decoder_self, index), _gate(gates.cross, index)
        x, _, _ = before(x, encoded, index, None, self_gate, cross_gate, False)
    here: DecoderLayer = model.decoder[layer]  # type: ignore[assignment]
    seen = here.around_self.enter(x)
    self_gate = _gate(gates.decoder_self, layer)
    if kind == "decoder_self":
        allowed = causal_mask(x.size(1), x.size(1), device)
        return Entering(here.self_attention, seen, seen, allowed, self_gate)
    attended = here.self_attention(
        seen, here.self_attention.keys_values(seen), causal=True, gates=self_gate
    )
    seen = here.around_cross.enter(here.around_self.leave(x, attended.output))
    allowed = _allowed(seen, encoded.memory, encoded.src_mask)
    gate = _gate(gates.cross, layer)
    return Entering(here.cross_attention, seen, encoded.memory, allowed, gate)


def _follow(
    entering: Entering, which: Which, query_token: str, key_tokens: tuple[str, ...]
) -> HeadStages:
    block, x_queries, x_keys, allowed, gates = entering
    head, query = which.head, which.query
    x_query, row = x_queries[:, query : query + 1], allowed[query : query + 1]  # [1, 1, d_model]
    q = block.queries(x_query)  # [1, H, 1, d_k]
    k, v = keys_values = block.keys_values(x_keys)
    own = slice(head * block.d_v, (head + 1) * block.d_v)
    gate = 1.0 if gates is None else float(gates[head])
    w_o = block.w_o.weight[:, own]  # [d_model, d_v]
    dots = (q[0, head] * k[0, head]).sum(1)  # [m]

    def weigh(scaling: bool) -> Weighing:
        # Equation 1 divides by sqrt(d_k); multiplying q by it takes the division back.
        by = 1.0 if scaling else math.sqrt(block.d_k)
        outputs, weights = attend(q * by, k, v, row, need_weights=True)
        assert weights is not None
        a, output = weights[0, head, 0], outputs[0, head, 0]  # [m], [d_v]
        logits = dots / math.sqrt(block.d_k) if scaling else dots
        return Weighing(
            logits=_array(logits),
            masked=_array(logits.masked_fill(~row[0], -math.inf)),
            weights=_array(a),
            weighted=_array(a[:, None] * v[0, head]),
            output=_array(output),
            contribution=_array(w_o @ (gate * output)),
        )

    together = block(x_query, keys_values, row, gates=gates, need_weights=True).output
    bias = block.w_o.bias
    return HeadStages(
        *which,
        query_token=query_token,
        key_tokens=key_tokens,
        x_query=_array(x_query[0, 0]),
        x_keys=_array(x_keys[0]),
        q=_array(q[0, head, 0]),
        keys=_array(k[0, head]),
        values=_array(v[0, head]),
        products=_array(q[0, head] * k[0, head]),
        dots=_array(dots),
        mask=row[0].cpu().numpy(),
        scaled=weigh(True),
        unscaled=weigh(False),
        gate=gate,
        block_output=_array(together[0, 0]),
        bias=_array(torch.zeros_like(together[0, 0]) if bias is None else bias),
        has_bias=bias is not None,
    )


def _allowed(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """[n, m] bool from a source mask [1, 1, 1, m]."""
    every = torch.ones(queries.size(1), keys.size(1), dtype=torch.bool, device=keys.device)
    return every if mask is None else every & mask[0, 0]


def _gate(gates: Tensor | None, layer: int) -> Tensor | None:
    return None if gates is None else gates[layer]


def _array(tensor: Tensor) -> Floats:
    """A float32 NumPy copy on the CPU, in one piece."""
    array: Floats = tensor.detach().float().cpu().contiguous().numpy().copy()
    return array
