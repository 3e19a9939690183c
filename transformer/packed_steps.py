"""What a search keeps of the packed decoder's work: one token a row at a time.

The keys and values of a source are kept once for all its rows, which attend together. Prefixes are
moved only where beams really move, all layers at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transformer.model import Encoded
from transformer.search import StepOutput

if TYPE_CHECKING:
    from transformer.packed import AttentionBlock, PackedDecoder


class PackedSteps:
    """A `transformer.search.StepFunction`: the state of one search.

    Shape letters: N sentences held, R rows, W the most rows that one sentence has, t tokens read.

    Attributes:
        prefix: [capacity, L, R, H, d_k + d_v], keys and values of the tokens read; t are filled.
        source: [L, N, H, S, d_k + d_v].  mask: [N, 1, 1, S] bool or None.
        sentence: [R], the place in `source` of each row's sentence.
    """

    def __init__(self, packed: PackedDecoder, encoded: Encoded, *, need_weights: bool) -> None:
        self.packed, self.need_weights = packed, need_weights
        self.source = packed.sources(encoded)
        self.mask = encoded.src_mask
        n_layers, n, n_heads, _, width = self.source.shape
        self.sentence = list(range(n))
        self.length = 0
        self.prefix = self.source.new_empty(16, n_layers, n, n_heads, width)
        self._place()

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.StepFunction`."""
        packed, model = self.packed, self.packed.model
        if parents is not None:
            self._move(parents)
        self._reserve()
        t = self.length
        tgt_in = torch.tensor(tokens, device=self.source.device)[:, None]
        x = model.embed_target(tgt_in, start=t)[:, 0]  # [R, d_model]
        self.length = t + 1
        own_maps, cross_maps = [], []
        for index, layer in enumerate(packed.layers):
            assert layer.cross is not None
            joined, own = self._attend_prefix(index, layer.own, x)
            x = layer.own.leave(joined, x)
            joined, cross = self._attend_source(index, layer.cross, x)
            x = layer.feed(layer.cross.leave(joined, x))
            own_maps.append(own)
            cross_maps.append(cross)
        logits = packed.generator(model.decoder_norm(x))
        if not self.need_weights:
            return StepOutput(logits)
        return StepOutput(logits, torch.stack(own_maps), self._rows(torch.stack(cross_maps)))

    def _attend_prefix(self, index: int, block: AttentionBlock, x: Tensor) -> tuple[Tensor, Tensor]:
        """Self-attention of one layer: heads side by side [R, H d_v], weights [R, H, t]."""
        q, made = block.split(block.project(block.around.enter(x)))
        self.prefix[self.length - 1, index] = made
        prefix = self.prefix[: self.length, index].permute(1, 2, 0, 3)  # [R, H, t, d_k + d_v]
        weights = (q[:, :, None] @ prefix[..., : block.d_k].mT).softmax(-1)  # [R, H, 1, t]
        return (weights @ prefix[..., block.d_k :]).flatten(1), weights[:, :, 0]

    def _attend_source(self, index: int, block: AttentionBlock, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention of one layer: heads side by side [R, H d_v], weights [N, H, W, S].

        The rows of a sentence attend together; where one has fewer than W, a row of zeros attends
        in its place and is left out again.
        """
        d_k, heads = block.d_k, block.n_heads
        n, width = self.source.size(1), self.width
        q = block.project(block.around.enter(x))  # [R, H d_k]
        if self.slots is not None:
            q = q.new_zeros(n * width, q.size(1)).index_copy_(0, self.slots, q)
        q = q.view(n, width, heads, d_k).transpose(1, 2)  # [N, H, W, d_k]
        source = self.source[index]  # [N, H, S, d_k + d_v]
        scores = q @ source[..., :d_k].mT
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, -math.inf)
        weights = scores.softmax(-1)  # [N, H, W, S]
        joined = (weights @ source[..., d_k:]).transpose(1, 2).reshape(n * width, -1)
        if self.slots is not None:
            joined = joined[self.slots]
        return joined, weights

    def _rows(self, maps: Tensor) -> Tensor:
        """Cross-attention by sentence, [L, N, H, W, S], to one by row, [L, R, H, S]."""
        by_slot = maps.transpose(2, 3).flatten(1, 2)  # [L, N W, H, S]
        return by_slot if self.slots is None else by_slot[:, self.slots]

    def _move(self, parents: Sequence[int]) -> None:
        """Let row i continue what row parents[i] held; drop sentences that have no row left."""
        rows = torch.tensor(parents, device=self.prefix.device)
        capacity, *shape = self.prefix.shape
        shape[1] = len(parents)
        moved = self.prefix.new_empty(capacity, *shape)
        held = self.prefix[: self.length]
        torch.index_select(held, 2, rows, out=moved[: self.length])
        self.prefix = moved
        self.sentence = [self.sentence[parent] for parent in parents]
        alive = sorted(set(self.sentence))
        # Each time the rest is copied, so a few places stay empty for a while.
        if len(alive) <= 0.75 * self.source.size(1):
            kept = torch.tensor(alive, device=self.source.device)
            self.source = self.source[:, kept]
            self.mask = None if self.mask is None else self.mask[kept]
            places = {sentence: place for place, sentence in enumerate(alive)}
            self.sentence = [places[sentence] for sentence in self.sentence]
        self._place()

    def _place(self) -> None:
        """Find each row's slot: a place among the W that every sentence has."""
        count = [0] * self.source.size(1)
        slots = []
        for sentence in self.sentence:
            slots.append((sentence, count[sentence]))
            count[sentence] += 1
        self.width = max(count)
        numbers = [sentence * self.width + place for sentence, place in slots]
        full = len(numbers) == len(count) * self.width
        self.slots = None if full else torch.tensor(numbers, device=self.source.device)

    def _reserve(self) -> None:
        if self.length == self.prefix.size(0):
            longer = self.prefix.new_empty(2 * self.length, *self.prefix.shape[1:])
            longer[: self.length] = self.prefix
            self.prefix = longer
