"""Differences of two attention maps: colour scale and description; and figures side by side.

Differences are between -1 and 1 on a scale symmetric about 0, so equal weights have the page
colour. The scale ends at one of a few round numbers: similar pictures then mostly share a scale,
and small differences remain visible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import indent

import numpy as np

from figures.attention import check_map
from figures.exhibit import Exhibit, Numbers, Offline, Panel, Series
from figures.labels import reads, signed
from transformer.types import Floats

LETTERS = "AB"  # names of the sides
#: Ends of the scale; effects of a cut exceed 1.
LIMITS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 30.0)


def scale_limit(difference: Floats) -> float:
    """Return the first of `LIMITS` that covers all differences of a map."""
    most = float(np.abs(difference).max()) if difference.size else 0.0
    return next((limit for limit in LIMITS if most <= limit), LIMITS[-1])


def describe_difference(
    difference: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]
) -> str:
    """Describe a difference in one sentence: the largest excess weight of each side.

    Raises: `ValueError` if the shape is not [queries, keys].
    """
    check_map(difference, query_tokens, key_tokens)
    if not difference.any():
        return "Every weight is the same on both sides"
    sentences = []
    for name, more in zip(LETTERS, (difference, -difference), strict=True):
        query, key = divmod(int(np.argmax(more)), more.shape[1])
        most = float(more[query, key])
        if most > 0:
            sentences.append(
                f"{name} looks more by up to {most:.2f}, where "
                f"{reads(query_tokens[query], key_tokens[key])}"
            )
    return "; ".join(sentences)


def describe_effect(effects: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> str:
    """Describe changes of log-probabilities [queries, keys] in one sentence."""
    query, key = divmod(int(np.abs(effects).argmax()), effects.shape[1])
    return (
        f"{len(query_tokens)} queries by {len(key_tokens)} keys; the largest change is "
        f"{signed(float(effects[query, key]))} nats, where "
        f"{reads(query_tokens[query], key_tokens[key])}"
    )


def beside(name: str, title: str, caption: str, sides: Mapping[str, Exhibit]) -> Exhibit:
    """Combine the figures of sides "A" and "B", or of one of them.

    Titles of parts and views start with the side's letter, array names end in `_a` or `_b`, and the
    program runs both programs. Raises `ValueError` if there are no sides.
    """
    parts: list[Panel | Series] = []
    arrays: dict[str, Numbers] = {}
    views: list[Offline] = []
    titles, program = [], ""
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
        where = side.facts.get("Attention", "")
        place = f" ({where})" if where and where not in side.title else ""
        titles.append(f"{letter}: {side.title}{place}")
    return Exhibit(
        name, title, f"{caption} {'; '.join(titles)}.", tuple(parts), arrays,
        program.rstrip("\n") + "\n", tuple(views), columns=1,
    )  # fmt: skip
