"""Grammars: what a search may write next, by what it has written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from transformer.types import Bools


class Grammar(Protocol):
    """Which tokens may follow, for the output of one sentence.

    A state is anything but None, which stands for "no rule applies any more", such as after a
    forced prefix that the grammar does not know.
    """

    def start(self) -> object:
        """Return the state before the first token."""

    def follow(self, state: object, token: int) -> object | None:
        """Return the state after one more token."""

    def allowed(self, state: object) -> Bools:
        """Return which tokens may follow a state, [V]; at least one of them may."""


def masked(logits: Tensor | Iterable[Tensor], allowed: Sequence[Bools | None]) -> Iterator[Tensor]:
    """Yield blocks of logits [r, V] in which the tokens that may not follow are -inf.

    Args: allowed: for every row what may follow; None allows all.
    """
    first = 0
    for block in [logits] if isinstance(logits, Tensor) else logits:
        rows = allowed[first : first + len(block)]
        first += len(block)
        kept = torch.ones(block.shape, dtype=torch.bool)
        for row, each in zip(kept, rows, strict=True):
            if each is not None:
                row.copy_(torch.from_numpy(each))
        yield block.masked_fill(~kept.to(block.device), -torch.inf)
