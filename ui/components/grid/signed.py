"""Grid of differences between two models' maps: diverging colours, one scale for all cells."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from figures.compare import describe_difference, scale_limit
from transformer.measures.compare import divergence
from transformer.measures.heads import How, widen
from transformer.types import Floats
from ui.components.grid import Sheet, make_sheet, names_of, shrink
from ui.components.packing import attention_look

#: Byte for a difference of 0.
_MIDDLE = 128


def difference_sheet(
    one: Floats, other: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str], *,
    label: str, ends: tuple[str, str], how: How = "mean", dimmed_keys: Sequence[int] = (),
) -> Sheet:  # fmt: skip
    """Return the sheet of `one - other`, head by head, for `grid_component`.

    Heads that only one side has are left out, but count in its combined maps.

    Args:
        one, other: [L, H, n, m], with the same queries and keys.
        label: grid name for screen readers.
        ends: names of both ends of the scale, negative first.
        how: how the last row and column combine layers and heads.
        dimmed_keys: columns to cover in grey.

    Sides above `MAX_SIDE` are shrunk to the largest absolute difference per block. Raises
    `ValueError` if the numbers of queries or keys differ.
    """
    layers, heads = np.minimum(one.shape[:2], other.shape[:2]).tolist()
    rows, columns = [*range(layers), -1], [*range(heads), -1]
    left, right = (widen(maps, how)[rows][:, columns] for maps in (one, other))
    apart = left - right
    limit = scale_limit(apart)
    pooled, dimmed = shrink(to_bytes(apart, limit), dimmed_keys, middle=_MIDDLE)
    bits = divergence(left, right).mean(axis=-1)  # [rows, columns]
    summaries = [
        [
            f"{name}: rows differ by {bits[r, c]:.3f} bits on average. "
            f"{describe_difference(apart[r, c], query_tokens, key_tokens)}."
            for c, name in enumerate(line)
        ]
        for r, line in enumerate(names_of(apart.shape[0], apart.shape[1], how))
    ]
    header = {
        "label": label, "summaries": summaries, "limit": limit, "ends": list(ends),
        **attention_look(signed=True),
    }  # fmt: skip
    return make_sheet(pooled, dimmed, query_tokens, key_tokens, how, header)


def to_bytes(apart: Floats, limit: float) -> NDArray[np.uint8]:
    """Scale differences in [-limit, limit] to bytes in [0, 255]; zero becomes 128."""
    share = np.clip(apart.astype(np.float64) / limit, -1, 1)
    result: NDArray[np.uint8] = np.rint(127.5 * (share + 1)).astype(np.uint8)
    return result
