"""A tree as a part of an exhibit: a table of nodes; `figures.paper.tree` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from figures.exhibit import Panel

End = Literal["", "finished", "cut"]


@dataclass(frozen=True, eq=False)
class Graph(Panel):
    """A search tree: `values` has a row per node, `rows` the tokens, `columns` the quantities.

    The columns "step" and "rank", both from 1, place a node; "log P" and "score" are written below
    its token.

    Raises: `ValueError` as for `Panel`, and if a node comes before its parent.
    """

    parents: tuple[int, ...] = ()  # [n] row of each node's parent, -1 for the root
    #: [n] 2 on the winning path, 1 on those of others that finished, else 0
    lines: tuple[int, ...] = ()
    beam: int = 1  # ranks from 0 to beam - 1 are drawn tall
    kept: tuple[bool, ...] = ()  # [n] whether a node was in the beam; the others have no box
    ends: tuple[End, ...] = ()  # [n] how a path ends at a node, "" if it goes on

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.rows)
        if {len(each) for each in (self.parents, self.lines, self.kept, self.ends)} != {n}:
            raise ValueError(
                f"graph {self.title!r}: not one of each attribute for each of {n} nodes"
            )
        if not all(-1 <= parent < row for row, parent in enumerate(self.parents)):
            raise ValueError(f"graph {self.title!r}: a node comes before its parent")
        for name in ("step", "rank", "log P", "score"):
            if name not in self.columns:
                raise ValueError(f"graph {self.title!r}: no column {name!r}")

    def column(self, name: str) -> list[float]:
        """Return one quantity of every node."""
        found: list[float] = self.values[:, self.columns.index(name)].tolist()
        return found
