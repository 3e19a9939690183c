"""Directions of Voita et al. (2021) in the shipped translators, from `directions.json`.

`benchmarks/directions.py` measures them and writes the file.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from figures.labels import percent, signed

#: Statement, sign of its mean where it holds, and quantity, by name in the file.
_STATEMENTS = {
    "falls": ("The source's share falls along the translation", -1, "rank correlation with step"),
    "drops": ("It drops once more at the end, for `</s>`", -1, "share"),
    "spreads": ("It spreads over more source tokens on the way", 1, "rank correlation with step"),
    "wrong, next": ("A wrong first token lowers it at the next three steps", -1, "share"),
    "wrong, later": ("A wrong first token lowers it at the steps after those", -1, "share"),
    "turns": ("In training it rises and falls, not one way", 1, "share"),
}


@cache
def measured() -> dict[str, Any]:
    """Return the file: directions and counts by checkpoint."""
    path = Path(__file__).with_name("directions.json")
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return record


def table(names: Iterable[str]) -> str:
    """Return the directions in these checkpoints as a Markdown table."""
    names = list(names)
    heading = ["Direction in Voita et al. (2021)", *(names if names[1:] else ["On this model"])]
    lines = [heading, ["---"] * len(heading)]
    for key, (statement, sign, quantity) in _STATEMENTS.items():
        results = [measured()[name]["directions"].get(key) for name in names]
        if any(results):
            verdicts = (_verdict(result, sign) for result in results)
            lines.append([f"{statement} ({quantity})", *verdicts])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _verdict(result: dict[str, float] | None, sign: int) -> str:
    if result is None:
        return "not measured"
    low, high = (round(result[end], 3) for end in ("low", "high"))
    verdict = "*holds here*" if sign * low > 0 and sign * high > 0 else "*does not*"
    return f"{verdict}: {signed(result['mean'], 3)} ({signed(low, 3)} to {signed(high, 3)})"


def marked_in_words(name: str) -> str:
    """Return how often tokens near the start are loose, with and without a wrong first token."""
    loose = measured()[name]["loose"]
    return (
        f"In the three tokens after the first, {percent(loose['own'])} of its own translations of "
        f"typed sentences have a loose token, and {percent(loose['wrong'])} after a wrong first "
        "token."
    )
