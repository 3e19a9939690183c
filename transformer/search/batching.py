"""Which sentences are translated together."""

from __future__ import annotations

from collections.abc import Sequence

#: Rows of a batch times their source tokens stay below this.
BATCH_TOKENS = 6_000


def batches(lengths: Sequence[int], beam_size: int) -> list[list[int]]:
    """Indices of the sentences to translate, longest first, those of like length together.

    The longest go first so that a batch that is too large for the machine fails at once.

    Args:
        lengths: source tokens of each sentence; those of 0 are left out.
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
