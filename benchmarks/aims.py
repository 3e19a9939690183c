"""Figures of a benchmark, printed beside their aims."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A measured value and its aim (None: no aim): the largest value aimed at, or the `least`."""

    name: str
    value: float
    aim: float | None = None
    unit: str = ""
    least: bool = False

    @property
    def verdict(self) -> str:
        """Return whether the aim was reached, in words; empty without an aim."""
        if self.aim is None:
            return ""
        reached = self.value >= self.aim if self.least else self.value <= self.aim
        bound = "at least" if self.least else "at most"
        return f"{bound} {self.aim:g}: {'reached' if reached else 'missed'}"


def report(figures: Iterable[Figure], as_json: bool, **more: Any) -> None:
    """Print each figure as it comes, as a row of a Markdown table, and then JSON on request.

    Args: more: further entries of the JSON.
    """
    print("| figure | value | aim |\n|---|---:|---|")
    found = {}
    for figure in figures:
        found[figure.name] = figure.value
        value = f"{figure.value:.3g} {figure.unit}".rstrip()
        print(f"| {figure.name} | {value} | {figure.verdict} |", flush=True)
    if as_json:
        print(json.dumps(found | more))


def ratio(one: float | None, other: float | None) -> float | None:
    """Return a ratio to three digits; None if a number is missing."""
    return float(f"{one / other:.3g}") if one is not None and other else None
