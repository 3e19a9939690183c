"""The effect of an edge: the change of a token's log-probability when it is cut.

Cutting an edge before the softmax hides a key from one query, and the weights on the other keys
grow. Positions before the query cannot change, nor layers below the cut, so an edge costs one
decoder position in the layers above. Many edges are read as one row, each seeing the keys and
values of earlier positions and its own.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformer.context import Context
from transformer.edits.model import EditedAttention
from transformer.hooks import Chain, Hook, Hooks, Record, Site
from transformer.model import Encoded, Transformer
from transformer.steps import KVCache
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Report, literals

#: Edges that are read at once, and pieces of the vocabulary that are scored at once: a block of
#: logits stays in the processor's caches.
_EDGES, _PIECES = 320, 2048


class _Cut(Hooks):
    """Hides one key from each query; a query without keys reads nothing."""

    def __init__(
        self, kind: AttentionKind, layer: int | None, head: int | None, steps: Tensor, keys: Tensor,
        n_earlier: int,
    ) -> None:  # fmt: skip
        """Args: steps, keys: [N].  n_earlier: positions before the queries' own."""
        self.kind, self.layer, self.head = kind, layer, head
        self.steps, self.keys, self.n = steps, keys, n_earlier

    def wants(self, site: Site) -> bool:
        return site.kind in ("decoder_self", "cross") and site.name in ("scores", "weights")

    def __call__(self, site: Site, value: Tensor) -> Tensor:  # [1, H, N, m] or [N, H, 1, m]
        if site.name == "weights":
            return value.nan_to_num(0.0)
        one, rows = value.size(0) == 1, torch.arange(len(self.keys), device=value.device)
        keys, hidden = self.keys, torch.zeros(len(rows), value.size(-1), dtype=torch.bool)
        hidden = hidden.to(value.device)
        if site.kind == "decoder_self":
            places = torch.arange(value.size(-1), device=value.device)
            own = self.n + rows * one  # the place of a query's own key
            hidden |= (places >= self.steps[:, None]) & (places != own[:, None])
            keys = torch.where(keys == self.steps, own, keys)
        hidden = hidden[:, None].expand(-1, value.size(1), -1).clone()  # [N, H, m]
        if site.kind == self.kind and self.layer in (None, site.layer):
            hidden[rows, slice(None) if self.head is None else self.head, keys] = True
        return value.masked_fill(hidden.transpose(0, 1) if one else hidden[:, :, None], -math.inf)


@literals
def effects(
    model: Any, trace: Trace, kind: AttentionKind, layer: int | None = None,
    head: int | None = None, *, excluded: Sequence[int] = (), hooks: Hook | None = None,
    progress: Report | None = None,
) -> Floats:  # fmt: skip
    """Return the effect of every edge of the decoder on the token that its row predicts.

    Args:
        model: a `Transformer`, or a causal model of one stack of its blocks, without hooks.
        kind: "decoder_self" or "cross".
        layer, head: 0-based; None cuts the edge in all of them at once.
        excluded: ids without probability, as in the search.
        hooks: hooks of the trace; they see one row per key, step by step.
        progress: called with (edges done, all edges); may raise to stop.

    Returns: [T, m] in nats, negative where the token becomes less likely; 0 for masked keys.

    Raises: `ValueError` for "encoder_self", whose edges belong to no step, or a missing head.
    """
    if kind == "encoder_self":
        raise ValueError("encoder edges belong to no step; expected decoder_self or cross")
    n_layers, n_heads, n_steps, n_keys = trace.attention(kind).shape
    for name, value, limit in (("layer", layer, n_layers), ("head", head, n_heads)):
        if value is not None:
            check_place(name, value, limit)
    device, result = model.generator.weight.device, np.zeros((n_steps, n_keys), np.float32)
    edges = [
        [(step, key) for key in range(step + 1 if kind == "decoder_self" else n_keys)]
        for step in range(n_steps)
    ]
    by_step = hooks is not None or any(  # hooks and cuts count a row's positions
        isinstance(block, EditedAttention) and block.cuts for block in model.modules()
    )
    if not by_step:
        together = [edge for row in edges for edge in row]
        edges = [together[at : at + _EDGES] for at in range(0, len(together), _EDGES)]
    with torch.inference_mode():
        tgt_in = torch.tensor([trace.tgt_ids], device=device)
        cache, first = KVCache(), 0 if by_step else layer or 0
        below = Site("decoder", first - 1, "feed_forward", "hidden")
        below = below if first else Site("decoder", None, "embedding", "hidden")
        record = Record([below])
        if isinstance(model, Transformer):
            encoded = model.encode(torch.tensor([trace.src_ids], device=device), hooks=hooks)
            read = model.decode(tgt_in, encoded, cache=cache, hooks=Chain(hooks, record)).hidden
        else:
            at, real = Context("decoder", record, cache=cache), torch.ones_like(tgt_in).bool()
            encoded, read = None, model.extend(tgt_in, real, at)
        own = torch.tensor(trace.predicted_ids, device=device)
        before, done = _log_probs(model, read[0], own, excluded), 0
        for some in edges:
            steps, keys = torch.tensor(some, device=device).T
            n_earlier = some[0][0] if by_step else n_steps
            cut = _Cut(kind, layer, head, steps, keys, n_earlier)
            if by_step and encoded is not None:
                rows = Encoded(encoded.memory.expand(len(some), -1, -1), None)
                earlier = cache.start(n_earlier, len(some))
                hooked = Chain(hooks, cut)
                ids = tgt_in[0, steps, None]
                hidden = model.decode(ids, rows, cache=earlier, hooks=hooked).hidden[:, 0]
            else:
                hidden = _in_one_row(model, record[below][:, steps], encoded, cache, cut, first)
            after = _log_probs(model, hidden, own[steps], excluded)
            result[tuple(np.array(some).T)] = to_array(after - before[steps])
            if progress is not None:
                progress(done := done + len(some), sum(map(len, edges)))
    return result


def _in_one_row(
    model: Any, x: Tensor, encoded: Encoded | None, cache: KVCache, cut: _Cut, first: int
) -> Tensor:
    """Run queries x [1, N, d_model] through the layers from `first`: [N, d_model]."""
    n, steps = cut.n, cut.steps
    relative: Tensor | None = model.distances("decoder_self", n, n)  # [1, H, n, n]
    if relative is not None:
        own = relative[..., :1, :1].expand(-1, -1, len(steps), len(steps))
        relative = torch.cat([relative[:, :, steps], own], -1)
    at = Context("decoder", cut, cache=cache.start(n, 1), relative=relative, start=n)
    for index, layer in enumerate(model.layers if encoded is None else model.decoder):
        if index >= first:
            sources = () if encoded is None else (encoded.memory,)
            x = layer(x, *sources, None, at.layer(index))
    hidden: Tensor = (model.norm if encoded is None else model.decoder_norm)(x)[0]
    return hidden


def _log_probs(model: Any, hidden: Tensor, tokens: Tensor, excluded: Sequence[int]) -> Tensor:
    """Return the log-probability of one token after each hidden state [R, d_model]: [R]."""
    weight, bias = model.generator.weight, model.generator.bias
    own = (hidden * weight[tokens]).sum(1) + (0 if bias is None else bias[tokens])
    never = torch.zeros(len(weight), dtype=torch.bool, device=weight.device)
    never[list(excluded)] = True
    sums = []
    for first in range(0, len(weight), _PIECES):
        part = slice(first, first + _PIECES)
        logits = nn.functional.linear(hidden, weight[part], None if bias is None else bias[part])
        sums.append(logits.masked_fill_(never[part], -math.inf).logsumexp(1))
    result: Tensor = own - torch.stack(sums).logsumexp(0)
    return result
