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
from transformer.hooks import Hooks, Record, Site
from transformer.model import Transformer
from transformer.steps import KVCache
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Report, literals

#: Edges that are read at once, and pieces of the vocabulary that are scored at once: a block of
#: logits stays in the processor's caches.
_EDGES, _PIECES = 320, 2048


class _Cut(Hooks):
    """Lets each query see earlier positions and itself, and hides one key from it.

    A query without keys reads nothing.
    """

    def __init__(
        self, kind: AttentionKind, layer: int | None, head: int | None, steps: Tensor, keys: Tensor,
        n_earlier: int,
    ) -> None:  # fmt: skip
        """Args: steps, keys: [N].  n_earlier: positions before the queries' own."""
        self.kind, self.layer, self.head = kind, layer, head
        own = torch.arange(len(steps), device=steps.device) + n_earlier
        places = torch.arange(n_earlier + len(steps), device=steps.device)
        self.ahead = (places >= steps[:, None]) & (places != own[:, None])  # [N, n + N]
        self.keys = torch.where(keys == steps, own, keys) if kind == "decoder_self" else keys

    def wants(self, site: Site) -> bool:
        return site.kind in ("decoder_self", "cross") and site.name in ("scores", "weights")

    def __call__(self, site: Site, value: Tensor) -> Tensor:  # [1, H, N, m]
        if site.name == "weights":
            return value.nan_to_num(0.0)
        if site.kind == "decoder_self":
            value = value.masked_fill(self.ahead, -math.inf)
        if site.kind == self.kind and self.layer in (None, site.layer):
            value = value.clone()
            heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
            value[0, heads, torch.arange(len(self.keys)), self.keys] = -math.inf
        return value


@literals
def effects(
    model: Any, trace: Trace, kind: AttentionKind, layer: int | None = None,
    head: int | None = None, *, excluded: Sequence[int] = (), progress: Report | None = None,
) -> Floats:  # fmt: skip
    """Return the effect of every edge of the decoder on the token that its row predicts.

    Args:
        model: a `Transformer`, or a causal model with one stack of its blocks.
        kind: "decoder_self" or "cross".
        layer, head: 0-based; None cuts the edge in all of them at once.
        excluded: ids without probability, as in the search.
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
    every = np.argwhere(np.tri(n_steps) if kind == "decoder_self" else np.ones_like(result))
    first, cache, positions = layer or 0, KVCache(), torch.arange(n_steps, device=device)
    below = Site("decoder", first - 1, "feed_forward", "hidden")
    below = below if first else Site("decoder", None, "embedding", "hidden")
    record = Record([below])
    with torch.inference_mode():
        tgt_in = torch.tensor([trace.tgt_ids], device=device)
        sources: tuple[Tensor, ...] = ()
        if isinstance(model, Transformer):
            encoded = model.encode(torch.tensor([trace.src_ids], device=device))
            read = model.decode(tgt_in, encoded, cache=cache, hooks=record).hidden
            layers, norm, sources = model.decoder, model.decoder_norm, (encoded.memory,)
        else:
            real, alone = torch.ones_like(tgt_in).bool(), Context("decoder", record, cache=cache)
            read = model.extend(tgt_in, real, alone)
            layers, norm = model.layers, model.norm
        (entering,) = record.values[below]
        relative = model.distances("decoder_self", n_steps, n_steps)
        own = torch.tensor(trace.predicted_ids, device=device)
        before = _log_probs(model, read[0], own, excluded)
        for start in range(0, len(every), _EDGES):
            some = every[start : start + _EDGES].T
            steps, keys = torch.tensor(some, device=device)
            places, x = torch.cat([positions, steps]), entering[:, steps]  # [1, N, d_model]
            at = Context(
                "decoder", _Cut(kind, layer, head, steps, keys, n_steps), cache.start(n_steps, 1),
                None if relative is None else relative[:, :, steps][..., places],
                start=n_steps, queries=steps, keys=places,
            )  # fmt: skip
            for index, block in enumerate(layers):
                x = block(x, *sources, None, at.layer(index)) if index >= first else x
            after = _log_probs(model, norm(x)[0], own[steps], excluded)
            result[tuple(some)] = to_array(after - before[steps])
            if progress is not None:
                progress(min(start + _EDGES, len(every)), len(every))
    return result


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
