"""Grouping sentences into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from transformer.search.reader import Source

Result = TypeVar("Result")

#: Most rows times source tokens in a batch.
BATCH_TOKENS = 6_000


def by_batches(
    sources: Sequence[Source],
    beam_size: int,
    run: Callable[[list[Source]], Sequence[Result]],
    progress: Callable[[int, int], None] | None = None,
    *,
    blank: Result | None = None,
) -> list[Result]:
    """Run sentences of similar length together, longest first; return the results in order.

    The longest come first so that a batch that is too large for the machine fails at once.

    Args:
        run: returns one result for each source it is given.
        progress: called with (sentences done, sentences in all) after each batch.
        blank: the result of a source without tokens, which is not run.
    """
    lengths = [len(source.ids) for source in sources]
    results = {index: blank for index, length in enumerate(lengths) if not length}
    batches: list[list[int]] = []
    for index in sorted(range(len(sources)), key=lambda index: -lengths[index]):
        # The first sentence of a batch is its longest.
        widest = lengths[batches[-1][0]] if batches else 0
        if index in results:
            continue
        if batches and (len(batches[-1]) + 1) * widest * beam_size <= BATCH_TOKENS:
            batches[-1].append(index)
        else:
            batches.append([index])
    for batch in batches:
        results |= zip(batch, run([sources[index] for index in batch]), strict=True)
        if progress is not None:
            progress(len(results), len(sources))
    return [results[index] for index in range(len(sources))]  # type: ignore[misc]
