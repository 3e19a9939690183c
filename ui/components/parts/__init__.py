"""A matrix as a sum of others: small maps with signs between them, and their sum, on one scale.

Pointing at a cell marks it in every map and writes out the sum.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.types import Floats
from ui.components.packing import Component, floats, labels, signed_colours


def parts_component(
    parts: Mapping[str, Floats], total: Floats, rows: Sequence[str], tokens: Sequence[str],
    mask: NDArray[np.bool_], *, label: str, total_name: str,
) -> Component[None]:  # fmt: skip
    """Return the component; its body is the parts and the total as float32, then the mask.

    Args:
        parts: maps [n, n] by name; rows are queries, columns keys.
        total: [n, n], the sum.
        rows, tokens: [n], row and column labels.
        mask: [n, n]; False entries look different and do not affect the scale.
        label: name for screen readers.
        total_name: name of the sum.

    Raises: `ValueError` if shapes disagree.
    """
    n = len(tokens)
    arrays = [*parts.values(), total]
    for array in (*arrays, mask):
        if array.shape != (n, n):
            raise ValueError(f"a map of shape {array.shape} for {n} tokens; expected {(n, n)}")
    header: dict[str, Any] = {
        "label": f"{label}. Arrow keys move from cell to cell.",
        "names": [*parts, total_name],
        "rows": labels(rows, 18),
        "tokens": labels(tokens, 18),
        "causal": not mask.all(),
        "limit": max(float(np.abs(array[mask]).max()) for array in arrays),
        "signed": signed_colours(),
    }
    return Component("parts", header, floats(arrays) + mask.astype(np.uint8).tobytes())
