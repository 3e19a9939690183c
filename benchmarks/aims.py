"""Figures of a benchmark: each is printed beside its aim."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """A measured value and the most that it should be (None: no aim)."""

    name: str
    value: float
    aim: float | None = None
    unit: str = ""

    @property
    def verdict(self) -> str:
        """Whether the aim was reached, in words; empty if there is no aim."""
        if self.aim is None:
            return ""
        return f"at most {self.aim:g}: {'reached' if self.value <= self.aim else 'missed'}"


def report(figures: Iterable[Figure], as_json: bool) -> None:
    """Print figures as they come, as rows of a Markdown table, then one line of JSON if wanted."""
    print("| figure | value | aim |\n|---|---:|---|")
    found = {}
    for figure in figures:
        found[figure.name] = figure.value
        value = f"{figure.value:.3g} {figure.unit}".rstrip()
        print(f"| {figure.name} | {value} | {figure.verdict} |", flush=True)
    if as_json:
        print(json.dumps(found))
