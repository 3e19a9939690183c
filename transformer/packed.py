"""The decoder, packed for speed: one token a row at a time, few and large operations.

The same numbers as `Transformer.decode` (tests hold them equal), arranged for inference:

- Queries, keys and values come from one product; 1 / sqrt(d_k) is part of the weights.
- The keys and values of a source are kept once for all its rows, which attend together.
- Prefixes are moved only where beams really move, all layers at once.
- With few rows a product is bound by reading its weights from memory, and W h^T reads them two to
  three times faster than h W^T does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.model import DecoderLayer, Encoded, Residual, Transformer
from transformer.search import StepOutput

#: A decoder with at least this many weights does not stay in the processor's caches.
LARGE = 4_000_000
FEW_ROWS = 4


@dataclass(frozen=True, eq=False)
class _Affine:
    """x W^T + b. `weight` is [n_out, n_in], `bias` [n_out] or None."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor, *, from_memory: bool = False) -> Tensor:
        """Map [R, n_in] to [R, n_out]; `from_memory` where the weights are not in a cache."""
        n_rows = x.size(0)
        if not from_memory or n_rows > FEW_ROWS:
            return F.linear(x, self.weight, self.bias)
        # One row alone would take the slow way of a product with a vector.
        columns = x.t() if n_rows > 1 else x.repeat(2, 1).t()
        made = torch.mm(self.weight, columns).t()[:n_rows]
        return made.contiguous() if self.bias is None else (made + self.bias).contiguous()


@dataclass(frozen=True, eq=False)
class _Layer:
    """One decoder layer's weights; `own` makes q, and per head k and v, of the row's token."""

    own: _Affine
    own_out: _Affine
    query: _Affine
    cross_out: _Affine
    inner: _Affine
    outer: _Affine
    around: tuple[Residual, Residual, Residual]


class PackedDecoder:
    """A model's decoder with its weights fused; makes step functions for the search.

    The weights are copied in part: after changing the model, make a new one.
    """

    def __init__(self, model: Transformer) -> None:
        layers = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
        own = layers[0].self_attention
        self.model, self.n_heads, self.d_k, self.d_v = model, own.n_heads, own.d_k, own.d_v
        self.layers = [self._pack(layer) for layer in layers]
        # Keys and values of the source, for all layers at once: [L H (d_k + d_v), d_model].
        sources = [self._keys_values(layer.cross_attention) for layer in layers]
        self.source = _stacked(sources)
        self.activation = layers[0].feed_forward.activation
        self.generator = _affine(model.generator)
        n_weights = sum(each.numel() for each in model.decoder.parameters())
        n_weights += model.generator.weight.numel()
        self.from_memory = model.generator.weight.device.type == "cpu" and n_weights >= LARGE

    def _pack(self, layer: DecoderLayer) -> _Layer:
        own, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
        return _Layer(
            own=_stacked([self._scaled_query(own), self._keys_values(own)]),
            own_out=_affine(own.w_o),
            query=self._scaled_query(cross),
            cross_out=_affine(cross.w_o),
            inner=_affine(feed.w_1),
            outer=_affine(feed.w_2),
            around=(layer.around_self, layer.around_cross, layer.around_feed_forward),
        )

    def _scaled_query(self, attention: MultiHeadAttention) -> _Affine:
        scale, affine = 1 / math.sqrt(self.d_k), _affine(attention.w_q)
        return _Affine(affine.weight * scale, None if affine.bias is None else affine.bias * scale)

    def _keys_values(self, attention: MultiHeadAttention) -> _Affine:
        """Head by head, keys then values: [H (d_k + d_v), d_model]."""
        k, v, heads = _affine(attention.w_k), _affine(attention.w_v), self.n_heads
        rows = [part.weight.view(heads, -1, part.weight.size(1)) for part in (k, v)]
        weight = torch.cat(rows, dim=1).flatten(0, 1)
        if k.bias is None or v.bias is None:
            return _Affine(weight, None)
        bias = torch.cat([k.bias.view(heads, -1), v.bias.view(heads, -1)], dim=1)
        return _Affine(weight, bias.flatten())

    def start(self, encoded: Encoded, *, need_weights: bool = False) -> PackedSteps:
        """A step function for the sentences in `encoded`, one row each at first."""
        return PackedSteps(self, encoded, need_weights=need_weights)


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
        n, n_source = encoded.memory.shape[:2]
        width = packed.d_k + packed.d_v
        projected = packed.source(encoded.memory)  # [N, S, L H (d_k + d_v)]
        split = projected.view(n, n_source, len(packed.layers), packed.n_heads, width)
        self.source = split.permute(2, 0, 3, 1, 4).contiguous()
        self.mask = encoded.src_mask
        self.sentence = list(range(n))
        self.length = 0
        self.prefix = projected.new_empty(16, len(packed.layers), n, packed.n_heads, width)
        self._place()

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.StepFunction`."""
        packed, model = self.packed, self.packed.model
        slow = packed.from_memory
        if parents is not None:
            self._move(parents)
        self._reserve()
        t = self.length
        tgt_in = torch.tensor(tokens, device=self.source.device)[:, None]
        x = model.embed_target(tgt_in, start=t)[:, 0]  # [R, d_model]
        self.length = t + 1
        own_maps, cross_maps = [], []
        for index, layer in enumerate(packed.layers):
            around_own, around_cross, around_feed = layer.around
            output, own = self._attend_prefix(index, layer, around_own.enter(x))
            x = around_own.leave(x, output)
            output, cross = self._attend_source(index, layer, around_cross.enter(x))
            x = around_cross.leave(x, output)
            inner = layer.inner(around_feed.enter(x), from_memory=slow)
            outer = layer.outer(packed.activation(inner), from_memory=slow)
            x = around_feed.leave(x, outer)
            own_maps.append(own)
            cross_maps.append(cross)
        logits = packed.generator(model.decoder_norm(x), from_memory=slow)
        if not self.need_weights:
            return StepOutput(logits)
        return StepOutput(logits, torch.stack(own_maps), self._rows(torch.stack(cross_maps)))

    def _attend_prefix(self, index: int, layer: _Layer, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Self-attention of one layer: output [R, d_model], weights [R, H, t]."""
        d_k, heads = self.packed.d_k, self.packed.n_heads
        made = layer.own(seen, from_memory=self.packed.from_memory)  # [R, H d_k + H (d_k + d_v)]
        q = made[:, : heads * d_k].view(-1, heads, 1, d_k)  # [R, H, 1, d_k]
        self.prefix[self.length - 1, index] = made[:, heads * d_k :].view(len(made), heads, -1)
        prefix = self.prefix[: self.length, index].permute(1, 2, 0, 3)  # [R, H, t, d_k + d_v]
        weights = (q @ prefix[..., :d_k].mT).softmax(-1)  # [R, H, 1, t]
        joined = (weights @ prefix[..., d_k:]).flatten(1)  # [R, H d_v]
        output = layer.own_out(joined, from_memory=self.packed.from_memory)
        return output, weights[:, :, 0]

    def _attend_source(self, index: int, layer: _Layer, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention of one layer: output [R, d_model], weights [N, H, W, S] by sentence.

        The rows of a sentence attend together; where one has fewer than W, a row of zeros attends
        in its place and is left out again.
        """
        d_k, heads = self.packed.d_k, self.packed.n_heads
        n, width = self.source.size(1), self.width
        q = layer.query(seen, from_memory=self.packed.from_memory)  # [R, H d_k]
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
        return layer.cross_out(joined, from_memory=self.packed.from_memory), weights

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


def _affine(linear: nn.Linear) -> _Affine:
    bias = linear.bias
    return _Affine(linear.weight.detach(), None if bias is None else bias.detach())


def _stacked(parts: Sequence[_Affine]) -> _Affine:
    """One product for several of the same input."""
    biases = [part.bias for part in parts if part.bias is not None]
    return _Affine(
        torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None
    )
