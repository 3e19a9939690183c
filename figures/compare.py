"""The difference of two attention maps: its scale, and what stands out in it, in words.

A difference lies between -1 and 1 and its scale is symmetric about 0, so that nothing has the
colour of the page where both look alike. The scale ends at one of a few round numbers: pictures of
one kind then mostly share a scale, and small differences can still be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from figures.attention import check_map
from figures.labels import show_token
from transformer.records import Floats

#: Where the scale may end.
LIMITS = (0.1, 0.25, 0.5, 1.0)


def scale_limit(difference: Floats) -> float:
    """The first of `LIMITS` that holds every difference of a map (of a map without any, 0.1)."""
    most = float(np.abs(difference).max()) if difference.size else 0.0
    return next((limit for limit in LIMITS if most <= limit), LIMITS[-1])


def describe_difference(
    difference: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    names: tuple[str, str] = ("A", "B"),
) -> str:
    """The map in one sentence: where each side looks more, or that nothing differs at all.

    Raises: `ValueError` where the shape is not [queries, keys].
    """
    check_map(difference, query_tokens, key_tokens)
    if not difference.any():
        return "Every weight is the same on both sides"
    said = []
    for name, signed in zip(names, (difference, -difference), strict=True):
        query, key = divmod(int(np.argmax(signed)), signed.shape[1])
        most = float(signed[query, key])
        if most > 0:
            said.append(
                f"{name} looks more by up to {most:.2f}, from query {query + 1} "
                f"{show_token(query_tokens[query])} to key {key + 1} {show_token(key_tokens[key])}"
            )
    return "; ".join(said)
