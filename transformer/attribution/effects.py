"""The effect of an edge: the change of a token's log-probability when it is cut.

Cutting an edge before the softmax hides a key from one query, and the weights on the other keys
grow. Positions before the query cannot change, so a step costs one decoder position per key, with
the keys and values of earlier positions in a cache.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transformer.hooks import Chain, Hook, Hooks, Site
from transformer.model import Encoded, Transformer
from transformer.search.scoring import normalised
from transformer.steps import KVCache
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Report, literals


class _Cut(Hooks):
    """Hides key j from the only query of row j; a query without keys reads nothing."""

    def __init__(self, kind: AttentionKind, layer: int | None, head: int | None) -> None:
        self.kind, self.layer, self.head = kind, layer, head

    def wants(self, site: Site) -> bool:
        return (
            site.kind == self.kind and site.name in ("scores", "weights")
            and self.layer in (None, site.layer)
        )  # fmt: skip

    def __call__(self, site: Site, value: Tensor) -> Tensor:  # [m, H, 1, m]
        if site.name == "weights":
            return value.nan_to_num(0.0)
        hidden = torch.eye(len(value), dtype=torch.bool, device=value.device)[:, None, None]
        hidden = hidden[..., : value.size(-1)].expand_as(value)
        if self.head is not None:
            others = torch.arange(value.size(1), device=value.device) != self.head
            hidden = hidden & ~others[:, None, None]
        return value.masked_fill(hidden, -math.inf)


@literals
def effects(
    model: Transformer, trace: Trace, kind: AttentionKind, layer: int | None = None,
    head: int | None = None, *, excluded: Sequence[int] = (), hooks: Hook | None = None,
    progress: Report | None = None,
) -> Floats:  # fmt: skip
    """Return the effect of every edge of the decoder on the token that its row predicts.

    Args:
        kind: "decoder_self" or "cross".
        layer, head: 0-based; None cuts the edge in all of them at once.
        excluded: ids without probability, as in the search.
        hooks: hooks of the trace; they see one row per key.
        progress: called with (steps done, all steps); may raise to stop.

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
    with torch.inference_mode():
        tgt_in = torch.tensor([trace.tgt_ids], device=device)
        encoded = model.encode(torch.tensor([trace.src_ids], device=device), hooks=hooks)
        cache = KVCache()
        before = model.logits(model.decode(tgt_in, encoded, cache=cache, hooks=hooks).hidden)[0]
        own = torch.tensor(trace.predicted_ids, device=device)
        before = normalised(before, excluded).gather(1, own[:, None])[:, 0]
        cut = Chain(hooks, _Cut(kind, layer, head))
        for step in range(n_steps):
            m = step + 1 if kind == "decoder_self" else n_keys
            rows = Encoded(encoded.memory.expand(m, -1, -1), None)
            again = tgt_in[:, step : step + 1].expand(m, 1)
            hidden = model.decode(again, rows, cache=cache.start(step, m), hooks=cut).hidden[:, 0]
            after = normalised(model.logits(hidden), excluded)[:, own[step]]
            result[step, :m] = to_array(after - before[step])
            if progress is not None:
                progress(step + 1, n_steps)
    return result
