"""The model as a step function for the search: one token a row at a time, with a cache."""

from __future__ import annotations

from torch import Tensor

from transformer.model import DecoderCache, Encoded, Transformer
from transformer.search import StepOutput


class CachedSteps:
    """`Transformer.decode` with its cache, as a `transformer.search.StepFunction`.

    Rows that end are dropped from the cache, and nothing moves while the beams stay in place.
    """

    def __init__(self, model: Transformer, encoded: Encoded, *, need_weights: bool = False) -> None:
        """Args: encoded: from `Transformer.encode`, one row a sentence."""
        self.model, self.encoded, self.need_weights = model, encoded, need_weights
        self.cache = DecoderCache()

    def __call__(self, tokens: Tensor, parents: Tensor | None) -> StepOutput:
        """See `transformer.search.StepFunction`."""
        if parents is not None:
            self.cache.select(parents)
            mask = self.encoded.src_mask
            # The memory itself is no longer needed: its keys and values are in the cache.
            self.encoded = Encoded(self.encoded.memory, None if mask is None else mask[parents])
        decoded = self.model.decode(
            tokens[:, None], self.encoded, cache=self.cache, need_weights=self.need_weights
        )
        logits = self.model.logits(decoded.hidden[:, 0])  # [R, V]
        if decoded.self_attention is None or decoded.cross_attention is None:
            return StepOutput(logits)
        return StepOutput(
            logits,
            decoded.self_attention[:, :, :, 0],  # [Ld, R, H, t]
            decoded.cross_attention[:, :, :, 0],  # [Ld, R, H, S]
        )
