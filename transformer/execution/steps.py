"""The packed decoder as a step function, with the key-value cache of one search.

Reordering beams copies no keys or values. Rows append their tokens' keys and values to a pool that
their sentence's rows share, and a mask marks the entries of a row's own prefix. A sentence's rows
attend together: to the pool, and to the source, which is stored once per sentence. A full pool
drops entries that no live row descends from.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from transformer.execution.packed import PackedDecoder, weigh
from transformer.kernels import additive
from transformer.model import Encoded
from transformer.steps import StepOutput

#: Maximum rows per block of logits, so that blocks stay in the caches.
BLOCK_ROWS = 96
#: Initial capacity of a pool, in tokens.
FIRST_CAPACITY = 64


class PackedSteps:
    """A `transformer.search.beam.StepFunction`: the state of one search.

    Shape letters: N sentences, R rows, W the most rows of any sentence, C the capacity of a pool,
    with c entries in use, t tokens read. Each row has one of the N W slots.

    Attributes:
        pool: [L, N, H, C, d_k + d_v], keys beside values.
        past: [N W, c], 0 for pool entries in the prefix of a slot's row, else -inf; None until a
            sentence has two rows.
        path: [N W, t], pool indices of these entries, in order; None while `past` is, or if weights
            are not needed.
        source_keys: [L, N, H, d_k, S].  source_values: [L, N, H, S, d_v].
        source_mask: [N, 1, 1, S], 0 or -inf, or None.
        sentence: [R], index of each row's sentence among the N.
        slots: [R], each row's slot; None if row i has slot i.
    """

    def __init__(
        self, packed: PackedDecoder, encoded: Encoded, *, need_weights: bool = False
    ) -> None:
        """Args: encoded: the sentences, with one row each at the first step."""
        self.packed, self.need_weights = packed, need_weights
        keys, values = map(torch.stack, zip(*packed.sources(encoded), strict=True))
        self.source_keys = keys.permute(0, 1, 3, 4, 2).contiguous()  # from [L, N, S, H, d_k]
        self.source_values = values.transpose(2, 3).contiguous()
        self.source_mask = None
        if encoded.src_mask is not None:
            self.source_mask = additive(encoded.src_mask, keys.dtype)
        own, n = packed.layers[0].own, len(encoded.memory)
        self.n_heads, self.d_k = own.n_heads, own.d_k
        self.pool = keys.new_empty(len(keys), n, own.n_heads, FIRST_CAPACITY, own.d_k + own.d_v)
        self.past: Tensor | None = None
        self.path: Tensor | None = None
        self.length, self.taken, self.width = 0, 0, 1
        self.sentence = list(range(n))
        self.slots: Tensor | None = None
        self._columns: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """See `transformer.search.beam.StepFunction`."""
        if parents is not None:
            self._reorder(parents)
        if self.taken + self.width > self.pool.size(3):
            self._make_room()
        before, self.taken = self.taken, self.taken + self.width
        self._unmask_new_tokens(before)
        model = self.packed.model
        tgt_in = torch.tensor(tokens, device=self.pool.device)[:, None]
        x = model.embed_target(tgt_in, start=self.length)[:, 0]  # [R, d_model]
        self.length += 1
        past = self.past
        if past is not None:
            past = past.view(-1, 1, self.width, self.taken)  # [N, 1, W, c]
        # Views of the layers' parts, created at once.
        seen = self.pool[..., : self.taken, :].flatten(1, 2)  # [L, N H, c, d_k + d_v]
        layers = zip(
            self.packed.layers, self.pool[..., before : self.taken, :].unbind(),
            seen[..., : self.d_k].mT.unbind(), seen[..., self.d_k :].unbind(),
            self.source_keys.flatten(1, 2).unbind(), self.source_values.flatten(1, 2).unbind(),
            strict=True,
        )  # fmt: skip
        own_maps, cross_maps = [], []
        for layer, fresh, keys, values, source_keys, source_values in layers:
            assert layer.cross is not None
            projected = self._heads(layer.own.project(layer.own.around.enter(x)))
            fresh.copy_(projected[..., self.d_k :])
            joined, own = self._attend(projected[..., : self.d_k], keys, values, past)
            x = layer.own.leave(joined, x)
            q = self._heads(layer.cross.project(layer.cross.around.enter(x)))
            joined, cross = self._attend(q, source_keys, source_values, self.source_mask)
            x = layer.feed(layer.cross.leave(joined, x))
            own_maps.append(own)
            cross_maps.append(cross)
        logits = self._logits(model.decoder_norm(x))
        if not self.need_weights:
            return StepOutput(logits)
        own_stack, cross_stack = torch.stack(own_maps), torch.stack(cross_maps)
        return StepOutput(logits, self._rows(self._in_order(own_stack)), self._rows(cross_stack))

    def _logits(self, hidden: Tensor) -> Tensor | Iterator[Tensor]:
        if len(hidden) <= BLOCK_ROWS:
            return self.packed.generator(hidden)
        # Blocks of equal size: a short one would take as long as reading the weights.
        blocks = hidden.tensor_split(math.ceil(len(hidden) / BLOCK_ROWS))
        return (self.packed.generator(block) for block in blocks)

    def _heads(self, rows: Tensor) -> Tensor:
        """Move rows [R, H d] to their slots, by head: [N, H, W, d]."""
        slots = self._to_slots(rows).view(self.pool.size(1), self.width, self.n_heads, -1)
        return slots.transpose(1, 2)

    def _attend(
        self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Attend to keys [N H, d_k, m] and values [N H, m, d_v].

        Args: q: [N, H, W, d_k].  mask: [N, 1, W or 1, m], 0 or -inf.

        Returns: side-by-side heads [R, H d_v], and weights [N H, W, m].
        """
        heads, weights = weigh(q.flatten(0, 1), keys, values, mask, self.n_heads)
        by_slot = heads.view(*q.shape[:3], -1).transpose(1, 2)
        joined = by_slot.reshape(q.size(0) * self.width, -1)
        return joined if self.slots is None else joined[self.slots], weights

    def _to_slots(self, rows: Tensor, empty: float = 0) -> Tensor:
        """Scatter rows [R, n] to their slots, [N W, n]; empty slots hold `empty`."""
        if self.slots is None:
            return rows
        n_slots = self.pool.size(1) * self.width
        return rows.new_full((n_slots, rows.size(1)), empty).index_copy_(0, self.slots, rows)

    def _rows(self, maps: Tensor) -> Tensor:
        """Gather the rows of maps [L, N H, W, m]: [L, R, H, m]."""
        by_head = maps.view(len(maps), -1, self.n_heads, *maps.shape[2:])
        by_slot = by_head.transpose(2, 3).flatten(1, 2)  # [L, N W, H, m]
        return by_slot if self.slots is None else by_slot[:, self.slots]

    def _in_order(self, maps: Tensor) -> Tensor:
        """Reorder weights over the pool [L, N H, W, c] by each row's prefix: [L, N H, W, t]."""
        if self.path is None:
            return maps
        path = self.path.view(-1, 1, self.width, self.length)
        places = path.expand(-1, self.n_heads, -1, -1).flatten(0, 1)
        return maps.gather(3, places.expand(len(maps), -1, -1, -1))

    def _unmask_new_tokens(self, before: int) -> None:
        """Unmask the pool entry of each row's new token."""
        if self.width == 1 and self.past is None:
            return
        own, fresh = self._own_columns()
        if self.past is None:  # so far, sentences had one row, whose prefix was the whole pool
            self.past = self.pool.new_zeros(len(fresh), before)
            if self.need_weights:
                prefix = torch.arange(before, device=self.pool.device)
                self.path = prefix.expand(len(fresh), -1)
        self.past = torch.cat([self.past, fresh], dim=1)
        if self.path is not None:
            self.path = torch.cat([self.path, own + before], dim=1)

    def _own_columns(self) -> tuple[Tensor, Tensor]:
        """Return the index of each slot's own new entry, [N W, 1], and a mask [N W, W]."""
        shape = (self.pool.size(1), self.width)
        if shape not in self._columns:
            own = torch.arange(self.width, device=self.pool.device)
            fresh = additive(own[:, None] == own, self.pool.dtype)
            self._columns = {shape: (own.repeat(shape[0])[:, None], fresh.repeat(shape[0], 1))}
        return self._columns[shape]

    def _reorder(self, parents: Sequence[int]) -> None:
        """Reorder rows so that row i continues row parents[i]; drop sentences without rows."""
        device = self.pool.device
        old = torch.tensor(parents, device=device)
        if self.slots is not None:
            old = self.slots[old]
        self.sentence = [self.sentence[parent] for parent in parents]
        alive = sorted(set(self.sentence))
        # Dropping copies the rest, so wait until a quarter of the sentences are done.
        if len(alive) <= 0.75 * self.pool.size(1):
            self._keep(torch.tensor(alive, device=device))
            places = {sentence: place for place, sentence in enumerate(alive)}
            self.sentence = [places[sentence] for sentence in self.sentence]
        self._assign_slots()
        if self.path is not None:
            self.path = self._to_slots(self.path[old])
        if self.past is not None:
            # An empty slot attends only to its own new entries, so that its softmax is defined.
            self.past = self._to_slots(self.past[old], -math.inf)

    def _assign_slots(self) -> None:
        """Assign each row one of its sentence's W slots."""
        count, places = [0] * self.pool.size(1), []
        for sentence in self.sentence:
            places.append((sentence, count[sentence]))
            count[sentence] += 1
        self.width = max(count)
        slots = [sentence * self.width + place for sentence, place in places]
        full = len(slots) == len(count) * self.width
        self.slots = None if full else torch.tensor(slots, device=self.pool.device)

    def _keep(self, sentences: Tensor) -> None:
        self.pool = self.pool.index_select(1, sentences)
        self.source_keys = self.source_keys.index_select(1, sentences)
        self.source_values = self.source_values.index_select(1, sentences)
        if self.source_mask is not None:
            self.source_mask = self.source_mask[sentences]

    def _make_room(self) -> None:
        """Drop entries that no row descends from; if that frees less than half, grow the pool."""
        if self.past is not None:
            self._compact()
        *shape, capacity, width = self.pool.shape
        if self.taken + self.width > capacity // 2:
            longer = self.pool.new_empty(*shape, capacity + max(capacity, self.width), width)
            longer[..., : self.taken, :] = self.pool[..., : self.taken, :]
            self.pool = longer

    def _compact(self) -> None:
        assert self.past is not None
        past = self.past.view(-1, self.width, self.taken)  # [N, W, c]
        needed = (past == 0).any(1)  # [N, c]
        self.taken = int(needed.sum(1).max())
        # Needed entries come first, in order; a sentence that needs fewer keeps some others.
        order = needed.long().argsort(dim=1, descending=True, stable=True)[:, : self.taken]
        n = len(order)
        shape = (*self.pool.shape[:3], self.taken, self.pool.size(4))
        index = order.view(1, n, 1, -1, 1)
        self.pool[..., : self.taken, :] = self.pool.gather(3, index.expand(shape))
        self.past = past.gather(2, order[:, None].expand(n, self.width, -1)).flatten(0, 1)
        if self.path is not None:
            places = torch.zeros_like(needed, dtype=torch.long)  # [N, c]
            places.scatter_(1, order, torch.arange(self.taken, device=order.device).expand(n, -1))
            self.path = places.gather(1, self.path.view(n, -1)).view(self.path.shape)
