"""Step-by-step decoding: the key-value cache, and the step function that a search calls."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor


class KeysValues(NamedTuple):
    """One attention block's projected keys [B, H, S, d_k] and values [B, H, S, d_v]."""

    k: Tensor
    v: Tensor


class KVCache:
    """Keys and values of a stack's attention blocks; every forward pass extends them."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int | None, str], KeysValues] = {}

    def update(
        self, layer: int | None, block: str, project: Callable[[Tensor], KeysValues], source: Tensor
    ) -> KeysValues:
        """Return a block's keys and values at all positions so far.

        Self-attention appends those for `source`; the "cross" block reads its source once.
        """
        earlier = self._blocks.get((layer, block))
        if earlier is not None and block == "cross":
            return earlier
        new = project(source)
        if earlier is not None:
            pairs = zip(earlier, new, strict=True)
            new = KeysValues(*(torch.cat(pair, dim=2) for pair in pairs))
        self._blocks[layer, block] = new
        return new

    @property
    def length(self) -> int:
        """Number of cached positions."""
        first = self._blocks.get((0, "self"))
        return 0 if first is None else first.k.size(2)

    def start(self, length: int, n_rows: int) -> Self:
        """Return a cache of `n_rows` equal rows with the first `length` positions of one row."""
        new = type(self)()
        for (layer, block), cached in self._blocks.items():
            kept = [
                (part if block == "cross" else part[:, :, :length]).expand(n_rows, -1, -1, -1)
                for part in cached
            ]
            new._blocks[layer, block] = KeysValues(*kept)
        return new

    def select(self, rows: Tensor) -> None:
        """Keep `rows` [B'] (batch indices, may repeat), in that order."""
        for place, cached in self._blocks.items():
            self._blocks[place] = KeysValues(cached.k[rows], cached.v[rows])


@dataclass(frozen=True, eq=False)
class StepOutput:
    """A step function's result for R rows that have read t tokens."""

    # [R, V], unnormalised log-probabilities of the next token; or an iterator over blocks of rows,
    # to be consumed before the next step.
    logits: Tensor | Iterable[Tensor]
    decoder_self: Tensor | None = None  # [Ld, R, H, t], the newest position's attention to prefixes
    cross: Tensor | None = None  # [Ld, R, H, S], and to the source


class StepFunction(Protocol):
    """The model as the search sees it; it remembers rows between calls."""

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        """Read one more token per row and score the next one.

        Args:
            tokens: [R], the rows' newest tokens; at the first call, `<s>` for each sentence.
            parents: [R], the rows of the previous call that rows continue; None if row i continues
                row i. A sentence's rows stay side by side, and sentences keep their order.
        """
