"""A causal stack as a step function: one token per row at a time, with a cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from transformer.context import Context
from transformer.kernels import causal_mask
from transformer.kv_cache import KVCache
from transformer.one_stack.model import OneStack
from transformer.search.beam import StepOutput


class StackSteps:
    """A `transformer.search.beam.StepFunction` that continues sources, read at the start.

    Attributes:
        real: [R, n] bool, which of the tokens read so far are no padding.
    """

    def __init__(self, model: OneStack, src: Tensor) -> None:
        """Read sources [N, S], padded at the end; S may be 0."""
        self.model = model
        self.at = Context("decoder", cache=KVCache())
        self.real = torch.zeros(len(src), 0, dtype=torch.bool, device=src.device)
        if src.size(1):
            self._read(src)

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        device = self.real.device
        if parents is not None:
            rows = torch.tensor(parents, device=device)
            self.real = self.real[rows]
            assert self.at.cache is not None
            self.at.cache.select(rows)
        hidden = self._read(torch.tensor(tokens, device=device)[:, None])
        return StepOutput(self.model.logits(hidden[:, -1]))

    def _read(self, ids: Tensor) -> Tensor:
        """Read ids [R, t] after those before them: hidden states [R, t, d_model]."""
        model, t = self.model, ids.size(1)
        # A step's token may be any, `</s>` of rows that have ended among them; none is padding.
        fresh = ids != model.config.pad_id if t > 1 else torch.ones_like(ids, dtype=torch.bool)
        self.real = torch.cat([self.real, fresh], dim=1)
        numbers = (self.real.cumsum(1) - 1).clamp(min=0)[:, -t:]
        mask = self.real[:, None, None, :] & causal_mask(t, self.real.size(1), ids.device)
        x = model.content(ids) + model.places_of(numbers)
        for index, layer in enumerate(model.layers):
            x = layer(x, mask, self.at.layer(index))
        hidden: Tensor = model.norm(x)
        return hidden
