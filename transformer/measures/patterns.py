"""Share of attention on a pattern: the previous token, the first one, the diagonal.

A pattern is a mask [n, m] of the keys that each query would look at. Rows without such a key are
left out (the first token has no previous one), and so are rows that see a single key, whose weight
there says nothing. A share says where a head looks, not what for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.measures.heads import Head
from transformer.types import Bools, Floats

#: "diagonal" is the line from the first query and key to the last ones, and one key to either side;
#: "end" are special tokens behind the first key, such as `</s>`; "pair" are chosen tokens.
Pattern = Literal["previous", "next", "itself", "first", "end", "diagonal", "pair"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

_STEPS = {"previous": -1, "next": 1, "itself": 0}


def pattern_mask(
    pattern: Pattern,
    n: int,
    m: int,
    *,
    same: bool,
    causal: bool = False,
    special: Sequence[int] = (),
    queries: Sequence[int] = (),
    keys: Sequence[int] = (),
) -> Bools:
    """Return the keys that the pattern names for each query, [n, m]; all False if it has none.

    Args:
        same: whether queries and keys are the same tokens; only then is one of them the previous.
        causal: keys after the query are masked, and so no part of any pattern.
        special: positions of special tokens among the keys.
        queries, keys: the tokens of "pair".
    """
    query, key = np.arange(n)[:, None], np.arange(m)[None, :]
    if pattern in _STEPS:
        mask = (key == query + _STEPS[pattern]) & same
    elif pattern == "first":
        mask = np.broadcast_to(key == 0, (n, m))
    elif pattern == "end":
        mask = np.broadcast_to(np.isin(key, special) & (key > 0), (n, m))
    elif pattern == "diagonal":
        mask = np.abs(key - query * (m - 1) / max(1, n - 1)) <= 1
    else:
        mask = np.isin(query, queries) & np.isin(key, keys)
    found: Bools = np.asarray(mask & (key <= query) if causal else mask.copy())
    return found


def pattern_share(maps: Floats, mask: Bools, *, causal: bool = False) -> NDArray[np.float64] | None:
    """Return each head's weight on a pattern, mean over the rows that have it, [L, H].

    Args:
        maps: [L, H, n, m], rows sum to 1.
        mask: [n, m], from `pattern_mask`.
        causal: row i sees i + 1 keys instead of m.

    Returns: 0 to 1; None if no row has the pattern and a choice.
    """
    rows = _rows(mask, causal)
    if not rows.any():
        return None
    taken = np.einsum("lhnm,nm->lhn", maps, mask.astype(maps.dtype))  # no copy of the maps
    share: NDArray[np.float64] = taken[..., rows].mean(axis=-1, dtype=np.float64)
    return share


def even_share(mask: Bools, *, causal: bool = False) -> float:
    """Return the share of a head that looks at all keys it sees alike; 0 if no row counts."""
    rows = _rows(mask, causal)
    return float((mask.sum(axis=-1) / _seen(mask, causal))[rows].mean()) if rows.any() else 0.0


def ranked(shares: NDArray[np.float64]) -> list[tuple[Head, float]]:
    """Return all heads with their shares [L, H], largest first; of equal ones the earlier first."""
    order = np.argsort(-shares, axis=None, kind="stable")
    n_heads = shares.shape[1]
    return [(divmod(int(at), n_heads), float(shares.flat[at])) for at in order]


def _seen(mask: Bools, causal: bool) -> NDArray[np.int64]:
    """Return how many keys each row sees, [n]."""
    n, m = mask.shape
    return np.minimum(np.arange(n) + 1, m) if causal else np.full(n, m)


def _rows(mask: Bools, causal: bool) -> Bools:
    rows: Bools = mask.any(axis=-1) & (_seen(mask, causal) > 1)
    return rows
