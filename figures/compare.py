"""The difference of two attention maps, its colour scale and description; figures side by side.

A difference lies between -1 and 1 and its scale is symmetric about 0, so that equal
weights have the colour of the page. The scale ends at one of a few round numbers: similar pictures
then mostly share a scale, and small differences stay visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import indent

import numpy as np

from figures.attention import check_map
from figures.exhibit import Exhibit, Numbers, Offline, Panel, Series
from figures.labels import plain_token
from transformer.types import Floats

#: The names of two sides.
LETTERS = "AB"

#: Possible ends of the scale.
LIMITS = (0.1, 0.25, 0.5, 1.0)


def scale_limit(difference: Floats) -> float:
    """Return the first of `LIMITS` that covers every difference of a map (0.1 for an empty one)."""
    most = float(np.abs(difference).max()) if difference.size else 0.0
    return next((limit for limit in LIMITS if most <= limit), LIMITS[-1])


def describe_difference(
    difference: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]
) -> str:
    """Describe the difference in one sentence: where each side has more weight, if anywhere.

    Raises: `ValueError` if the shape is not [queries, keys].
    """
    check_map(difference, query_tokens, key_tokens)
    if not difference.any():
        return "Every weight is the same on both sides"
    sentences = []
    for name, signed in zip(LETTERS, (difference, -difference), strict=True):
        query, key = divmod(int(np.argmax(signed)), signed.shape[1])
        most = float(signed[query, key])
        if most > 0:
            sentences.append(
                f"{name} looks more by up to {most:.2f}, from query {query + 1} "
                f"{plain_token(query_tokens[query])} to key {key + 1} "
                f"{plain_token(key_tokens[key])}"
            )
    return "; ".join(sentences)


def beside(name: str, title: str, caption: str, sides: Mapping[str, Exhibit]) -> Exhibit:
    """Combine the figures of both sides; either side may be missing.

    Args: sides: "A" and "B", or one of them, to its figure.

    Titles of parts and views start with their side, array names end in `_a` or `_b`, and the
    program runs each side's. Raises `ValueError` without a side.
    """
    parts: list[Panel | Series] = []
    arrays: dict[str, Numbers] = {}
    views: list[Offline] = []
    program = ""
    for letter, side in sides.items():
        small = letter.lower()
        parts += [replace(part, title=f"{letter}: {part.title}") for part in side.parts]
        arrays |= {f"{key}_{small}": values for key, values in side.arrays.items()}
        views += [replace(view, title=f"{letter}: {side.title}") for view in side.views]
        names = list(side.arrays)
        variables = "".join(f"{key}_{small}, " for key in names).rstrip()
        program += (
            f"def side_{small}():\n"
            + indent(side.snippet, "    ")
            + f"    return {', '.join(names)},\n\n\n{variables} = side_{small}()\n\n\n"
        )
    titles = "; ".join(_said(letter, side) for letter, side in sides.items())
    return Exhibit(
        name=name,
        title=title,
        caption=f"{caption} {titles}.",
        parts=tuple(parts),
        arrays=arrays,
        snippet=program.rstrip("\n") + "\n",
        offline=tuple(views),
        columns=1,
    )


def _said(letter: str, side: Exhibit) -> str:
    where = side.facts.get("Attention", "")
    return f"{letter}: {side.title}" + (f" ({where})" if where and where not in side.title else "")
