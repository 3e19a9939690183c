"""The model as a step function: one token per row at a time, with a cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from transformer.hooks import Hooks
from transformer.kv_cache import KVCache
from transformer.model import Encoded, Transformer
from transformer.search.beam import StepOutput


class CachedSteps:
    """`Transformer.decode` with its cache, as a `transformer.search.beam.StepFunction`.

    The reference; tests check that `transformer.fast.steps` gives the same. Rows that end leave the
    cache, and nothing is copied while the beams stay in place.
    """

    def __init__(
        self,
        model: Transformer,
        encoded: Encoded,
        *,
        need_weights: bool = False,
        hooks: Hooks | None = None,
    ) -> None:
        """Start a search.

        Args:
            encoded: from `Transformer.encode`, one row per sentence.
            need_weights: also return the newest position's attention.
            hooks: given to every step of the decoder.
        """
        self.model, self.encoded, self.need_weights = model, encoded, need_weights
        self.hooks = hooks
        self.cache = KVCache()

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        device = self.encoded.memory.device
        if parents is not None:
            rows = torch.tensor(parents, device=device)
            self.cache.select(rows)
            mask = self.encoded.src_mask
            # Rows of the memory need not follow: its keys and values are in the cache.
            self.encoded = Encoded(self.encoded.memory, None if mask is None else mask[rows])
        tgt_in = torch.tensor(tokens, device=device)[:, None]  # [R, 1]
        decoded = self.model.decode(
            tgt_in, self.encoded, cache=self.cache, hooks=self.hooks, need_weights=self.need_weights
        )
        logits = self.model.logits(decoded.hidden[:, 0])  # [R, V]
        if decoded.self_attention is None or decoded.cross_attention is None:
            return StepOutput(logits)
        return StepOutput(
            logits,
            decoded.self_attention[:, :, :, 0],  # [Ld, R, H, t]
            decoded.cross_attention[:, :, :, 0],  # [Ld, R, H, S]
        )
