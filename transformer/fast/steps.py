"""What a search keeps of the packed decoder's work: one token a row at a time.

Nothing is moved when beams move. Every row adds the keys and values of its token to a pool that its
sentence's rows share, and a mask says which of them are the row's own past. The rows of a sentence
attend together, to the pool and to the source, which is kept once a sentence. When the pool is
full, what no living row descends from is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from transformer.fast.packed import AttentionBlock, PackedDecoder, additive, weigh
from transformer.model import Encoded
from transformer.search.beam import StepOutput

#: Logits are made for so many rows at a time, which stay in the processor's caches.
BLOCK_ROWS = 96
#: Tokens that a pool holds at first.
FIRST_CAPACITY = 64


class PackedSteps:
    """A `transformer.search.beam.StepFunction`: the state of one search.

    Shape letters: N sentences held, R rows, W the most rows that one sentence has, C places in a
    pool, of which c are taken, t tokens read. A row is at home in one of the N W homes.

    Attributes:
        keys: [L, N, H, d_k, C].  values: [L, N, H, C, d_v].  The pools.
        past: [N W, c], 0 for the tokens that a home's row has read and -inf for others; None where
            no sentence ever had two rows.
        path: [N W, t], where those tokens are in the pool, in order; None where no map is wanted.
        source_keys: [L, N, H, d_k, S].  source_values: [L, N, H, S, d_v].
        source_mask: [N, 1, 1, S], 0 or -inf, or None.
        sentence: [R], the place of each row's sentence among the N.
        homes: [R], each row's home; None where row i is at home in i.
    """

    def __init__(
        self, packed: PackedDecoder, encoded: Encoded, *, need_weights: bool = False
    ) -> None:
        """Args: encoded: the sentences, one row each at first."""
        self.packed, self.need_weights = packed, need_weights
        n_heads, (n, n_source) = packed.crosses[0].n_heads, encoded.memory.shape[:2]
        keys, values = (torch.stack(each) for each in zip(*packed.sources(encoded), strict=True))
        n_layers = len(keys)
        keys = keys.view(n_layers, n, n_source, n_heads, -1)
        values = values.view(n_layers, n, n_source, n_heads, -1)
        self.source_keys = keys.permute(0, 1, 3, 4, 2).contiguous()
        self.source_values = values.transpose(2, 3).contiguous()
        self.source_mask = None
        if encoded.src_mask is not None:
            self.source_mask = additive(encoded.src_mask, keys.dtype)
        own = packed.layers[0].own
        self.keys = keys.new_empty(n_layers, n, n_heads, own.d_k, FIRST_CAPACITY)
        self.values = keys.new_empty(n_layers, n, n_heads, FIRST_CAPACITY, own.d_v)
        self.past: Tensor | None = None
        self.path: Tensor | None = None
        if need_weights:
            self.path = torch.empty(n, 0, dtype=torch.long, device=keys.device)
        self.length, self.taken, self.width = 0, 0, 1
        self.sentence = list(range(n))
        self.homes: Tensor | None = None
        self._owns: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        if parents is not None:
            self._follow(parents)
        if self.taken + self.width > self.keys.size(4):
            self._make_room()
        before, self.taken = self.taken, self.taken + self.width
        self._admit(before)
        model = self.packed.model
        tgt_in = torch.tensor(tokens, device=self.keys.device)[:, None]
        x = model.embed_target(tgt_in, start=self.length)[:, 0]  # [R, d_model]
        self.length += 1
        past = self.past
        if past is not None:
            past = past.view(-1, 1, self.width, self.taken)  # [N, 1, W, c]
        # Views, which the layers write their keys and values to.
        pools = zip(
            _by_head(self.keys[..., : self.taken]), _by_head(self.values[..., : self.taken, :]),
            _by_head(self.source_keys), _by_head(self.source_values), strict=True,
        )  # fmt: skip
        own_maps, cross_maps = [], []
        for layer, (keys, values, source_keys, source_values) in zip(
            self.packed.layers, pools, strict=True
        ):
            assert layer.cross is not None
            made = self._home(layer.own.project(layer.own.around.enter(x)))
            q, k, v = made.split_with_sizes(layer.own.widths, dim=1)
            keys[..., before:] = self._heads(k, layer.own).mT
            values[:, before:] = self._heads(v, layer.own)
            joined, own = self._attend(layer.own, q, keys, values, past)
            x = layer.own.leave(joined, x)
            q = self._home(layer.cross.project(layer.cross.around.enter(x)))
            joined, cross = self._attend(
                layer.cross, q, source_keys, source_values, self.source_mask
            )
            x = layer.feed(layer.cross.leave(joined, x))
            own_maps.append(own)
            cross_maps.append(cross)
        logits = self._logits(model.decoder_norm(x))
        if not self.need_weights:
            return StepOutput(logits)
        return StepOutput(logits, self._in_order(torch.stack(own_maps)), self._rows(cross_maps))

    def _logits(self, hidden: Tensor) -> Tensor | Iterator[Tensor]:
        if len(hidden) <= BLOCK_ROWS:
            return self.packed.generator(hidden)
        return (
            self.packed.generator(hidden[first : first + BLOCK_ROWS])
            for first in range(0, len(hidden), BLOCK_ROWS)
        )

    def _heads(self, x: Tensor, block: AttentionBlock) -> Tensor:
        """[N W, H d] as [N H, W, d]."""
        split = x.view(-1, self.width, block.n_heads, x.size(1) // block.n_heads)
        return split.transpose(1, 2).reshape(-1, self.width, split.size(3))

    def _attend(
        self, block: AttentionBlock, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What the rows make of keys [N H, d_k, m] and values [N H, m, d_v].

        Args:
            q: [N W, H d_k].  mask: [N, 1, W or 1, m], 0 or -inf.

        Returns: heads side by side [R, H d_v], and weights [N, H, W, m].
        """
        heads, weights = weigh(self._heads(q, block), keys, values, mask, block.n_heads)
        joined = heads.transpose(1, 2)
        joined = joined.reshape(len(q), -1)
        return joined if self.homes is None else joined[self.homes], weights

    def _home(self, rows: Tensor, empty: float = 0) -> Tensor:
        """Rows [R, n] at their homes, [N W, n]; homes without a row hold `empty`."""
        if self.homes is None:
            return rows
        n_homes = self.keys.size(1) * self.width
        return rows.new_full((n_homes, rows.size(1)), empty).index_copy_(0, self.homes, rows)

    def _rows(self, maps: Sequence[Tensor]) -> Tensor:
        """A map [N, H, W, m] for each layer as [L, R, H, m]."""
        by_home = torch.stack(list(maps)).transpose(2, 3).flatten(1, 2)  # [L, N W, H, m]
        return by_home if self.homes is None else by_home[:, self.homes]

    def _in_order(self, maps: Tensor) -> Tensor:
        """Weights onto the pool [L, N, H, W, c] as weights onto each row's past, [L, R, H, t]."""
        assert self.path is not None
        path = self.path.view(-1, 1, self.width, self.length)
        places = path.expand(len(maps), *maps.shape[1:4], -1)
        return self._rows(maps.gather(4, places).unbind(0))

    def _admit(self, before: int) -> None:
        """Let every home's row see the place that its token takes in the pool."""
        own, fresh = self._own()
        if self.path is not None:
            self.path = torch.cat([self.path, own + before], dim=1)
        if self.width == 1 and self.past is None:
            return
        if self.past is None:  # so far, a row for each sentence that had read everything
            self.past = self.keys.new_zeros(len(fresh), before)
        self.past = torch.cat([self.past, fresh], dim=1)

    def _own(self) -> tuple[Tensor, Tensor]:
        """Which of W new places is each home's own, [N W, 1], and as a mask, [N W, W]."""
        shape = (self.keys.size(1), self.width)
        if shape not in self._owns:
            own = torch.arange(self.width, device=self.keys.device)
            fresh = additive(own[:, None] == own, self.keys.dtype)
            self._owns = {shape: (own.repeat(shape[0])[:, None], fresh.repeat(shape[0], 1))}
        return self._owns[shape]

    def _follow(self, parents: Sequence[int]) -> None:
        """Let row i continue what row parents[i] held; drop sentences that have no row left."""
        device = self.keys.device
        old = torch.tensor(parents, device=device)
        if self.homes is not None:
            old = self.homes[old]
        self.sentence = [self.sentence[parent] for parent in parents]
        alive = sorted(set(self.sentence))
        # Each time the rest is copied, so a few places stay empty for a while.
        if len(alive) <= 0.75 * self.keys.size(1):
            self._keep(torch.tensor(alive, device=device))
            places = {sentence: place for place, sentence in enumerate(alive)}
            self.sentence = [places[sentence] for sentence in self.sentence]
        self._settle()
        if self.path is not None:
            self.path = self._home(self.path[old])
        if self.past is not None:
            # A home without a row sees what it adds itself, and nothing else.
            self.past = self._home(self.past[old], -math.inf)

    def _settle(self) -> None:
        """Find each row's home: a place among the W that every sentence has."""
        count = [0] * self.keys.size(1)
        numbers = []
        for sentence in self.sentence:
            numbers.append((sentence, count[sentence]))
            count[sentence] += 1
        self.width = max(count)
        homes = [sentence * self.width + place for sentence, place in numbers]
        full = len(homes) == len(count) * self.width
        self.homes = None if full else torch.tensor(homes, device=self.keys.device)

    def _keep(self, sentences: Tensor) -> None:
        self.keys = self.keys.index_select(1, sentences)
        self.values = self.values.index_select(1, sentences)
        self.source_keys = self.source_keys.index_select(1, sentences)
        self.source_values = self.source_values.index_select(1, sentences)
        if self.source_mask is not None:
            self.source_mask = self.source_mask[sentences]

    def _make_room(self) -> None:
        """Leave out what no row descends from; where that is not enough, make the pool larger."""
        if self.past is not None:
            self._leave_out()
        capacity = self.keys.size(4)
        if self.taken + self.width > capacity // 2:
            more = max(capacity, self.width)
            self.keys = self._longer(self.keys, 4, more)
            self.values = self._longer(self.values, 3, more)

    def _longer(self, pool: Tensor, dim: int, more: int) -> Tensor:
        """The pool with room for `more` along a dimension; what it holds is kept."""
        shape = list(pool.shape)
        shape[dim] += more
        longer = pool.new_empty(shape)
        longer.narrow(dim, 0, self.taken).copy_(pool.narrow(dim, 0, self.taken))
        return longer

    def _leave_out(self) -> None:
        assert self.past is not None
        past = self.past.view(-1, self.width, self.taken)  # [N, W, c]
        needed = (past == 0).any(1)  # [N, c]
        self.taken = int(needed.sum(1).max())
        # Needed places first, in their order; a sentence that needs fewer keeps some others.
        order = needed.long().argsort(dim=1, descending=True, stable=True)[:, : self.taken]
        n = len(order)
        index = order.view(1, n, 1, 1, -1)
        shape = (*self.keys.shape[:4], self.taken)
        self.keys[..., : self.taken] = self.keys.gather(4, index.expand(shape))
        shape = (*self.values.shape[:3], self.taken, self.values.size(4))
        index = order.view(1, n, 1, -1, 1)
        self.values[..., : self.taken, :] = self.values.gather(3, index.expand(shape))
        self.past = past.gather(2, order[:, None].expand(n, self.width, -1)).flatten(0, 1)
        if self.path is not None:
            places = torch.zeros_like(needed, dtype=torch.long)  # [N, c]
            places.scatter_(1, order, torch.arange(self.taken, device=order.device).expand(n, -1))
            self.path = places.gather(1, self.path.view(n, -1)).view(self.path.shape)


def _by_head(pool: Tensor) -> tuple[Tensor, ...]:
    """[L, N, H, ...] as a view [N H, ...] for each layer."""
    return pool.view(len(pool), -1, *pool.shape[3:]).unbind(0)
