"""Grouping sentences into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

#: Most rows times source tokens in a batch.
BATCH_TOKENS = 6_000


def batches(lengths: Sequence[int], beam_size: int) -> list[list[int]]:
    """Group sentences of similar length, longest first; return their indices.

    The longest come first so that a batch that is too large for the machine fails at once.

    Args:
        lengths: source tokens of each sentence; empty ones are left out.
    """
    order = sorted(
        (index for index, length in enumerate(lengths) if length),
        key=lambda index: -lengths[index],
    )
    found: list[list[int]] = []
    for index in order:
        # The first sentence of a batch is its longest.
        widest = lengths[found[-1][0]] if found else 0
        if found and (len(found[-1]) + 1) * widest * beam_size <= BATCH_TOKENS:
            found[-1].append(index)
        else:
            found.append([index])
    return found


def by_batches(
    lengths: Sequence[int],
    beam_size: int,
    run: Callable[[list[int]], Sequence[Result]],
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, Result]:
    """Run every batch of `batches`; return the results by sentence, none for empty ones.

    Args:
        run: returns one result for each index it is given.
        progress: called with (sentences done, sentences in all) after each batch.
    """
    results: dict[int, Result] = {}
    n_empty = sum(not length for length in lengths)
    for batch in batches(lengths, beam_size):
        results |= zip(batch, run(batch), strict=True)
        if progress is not None:
            progress(n_empty + len(results), len(lengths))
    return results
