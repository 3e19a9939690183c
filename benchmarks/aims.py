"""Figures of a benchmark, printed beside their aims."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """A measured value, and the largest value aimed at (None: no aim)."""

    name: str
    value: float
    aim: float | None = None
    unit: str = ""

    @property
    def verdict(self) -> str:
        """Return whether the aim was reached, in words; empty without an aim."""
        if self.aim is None:
            return ""
        return f"at most {self.aim:g}: {'reached' if self.value <= self.aim else 'missed'}"


def report(figures: Iterable[Figure], as_json: bool) -> None:
    """Print each figure as it comes, as a row of a Markdown table, and then JSON on request."""
    print("| figure | value | aim |\n|---|---:|---|")
    found = {}
    for figure in figures:
        found[figure.name] = figure.value
        value = f"{figure.value:.3g} {figure.unit}".rstrip()
        print(f"| {figure.name} | {value} | {figure.verdict} |", flush=True)
    if as_json:
        print(json.dumps(found))
