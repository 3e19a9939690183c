"""A search tree as on screen: steps from left to right, the best rank on top.

A tree that is too wide goes on below, where the nodes that the next step continues are repeated
with a dashed border; one that is too tall for a page leaves out its numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from figures.graph import Graph
from figures.numbers import signed
from figures.palette import mixed
from figures.paper.presets import Preset
from figures.paper.style import fitted, label, width

_MOST_DROPPED = 5  # wider beams than this leave out edges to what they dropped
_ROOT = -1


class Box(NamedTuple):
    """The place of a node, in points from the left and from the top."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Return the middle of the height, where edges start and end."""
        return self.y + self.height / 2


class Tree:
    """A tree in as many bands as it needs to be no wider than the page.

    Attributes:
        height: in points.  numbered: whether nodes show log P and score.
    """

    def __init__(self, graph: Graph, preset: Preset, most: float) -> None:
        """Args: most: height above which the numbers are left out."""
        self.graph, self.preset = graph, preset
        self.ranks = [round(rank) - 1 for rank in graph.column("rank")]
        self.steps = [round(step) - 1 for step in graph.column("step")]
        self.tokens = [label(token) for token in graph.rows]
        self.pad = 0.45 * preset.text
        self.gutter = width("00", preset.small) + self.pad
        self.root = width("<s>", preset.text) + 2 * self.pad
        self.thin = 1.5 * preset.small  # height of a node below the beam
        self.quiet = mixed(preset.chrome.ink, preset.paper, 0.66)
        self.rule = mixed(preset.chrome.ink, preset.paper, 0.32)
        self._sized(numbered=True)
        if self.height > most:
            self._sized(numbered=False)

    def _sized(self, *, numbered: bool) -> None:
        preset, self.numbered = self.preset, numbered
        self.gap = (2.4 if numbered else 1.6) * preset.text  # between columns, for the edges
        self.tall = 1.2 * (preset.text + (preset.small if numbered else 0)) + self.pad
        both = zip(self.graph.column("log P"), self.graph.column("score"), strict=True)
        # Below a token of the beam log P and score, beside one below it log P alone.
        self.numbers = [
            "" if not numbered
            else f"{signed(total)} · {signed(score)}" if self.inside(index) else signed(total)
            for index, (total, score) in enumerate(both)
        ]  # fmt: skip
        most = (preset.room - self.gutter - self.gap) / 2
        self.widths = [0.0] * (max(self.steps) + 1)
        for index, step in enumerate(self.steps):
            inside = self.inside(index)
            word = width(self.tokens[index], self._type(inside), bold=self.won(index))
            number = width(self.numbers[index], preset.small)
            wide = max(word, number) if inside else word + self.pad + number
            self.widths[step] = max(self.widths[step], min(wide + 2 * self.pad, most))
        self.bands = self._bands()
        self.height = sum(self._height(steps) + preset.text for steps in self.bands)
        self.height += 1.5 * preset.small  # the legend

    def _bands(self) -> list[range]:
        bands, first = [], 0
        x = self.gutter + self.root
        for step, wide in enumerate(self.widths):
            if step > first and x + self.gap + wide > self.preset.room:
                bands.append(range(first, step))
                first, x = step, self.gutter + self.widths[step - 1]
            x += self.gap + wide
        return [*bands, range(first, len(self.widths))]

    def inside(self, index: int) -> bool:
        """Return True for a node whose row is one of the beam's, which are tall."""
        return self.ranks[index] < self.graph.beam

    def won(self, index: int) -> bool:
        """Return True for a node on the winning path."""
        return self.graph.lines[index] == 2

    def _type(self, inside: bool) -> float:
        return self.preset.text if inside else self.preset.small

    def _top(self, rank: int) -> float:
        beam = self.graph.beam
        head = 1.6 * self.preset.small + min(rank, beam) * (self.tall + self.pad)
        return head + (self.pad + (rank - beam) * (self.thin + 1.5) if rank >= beam else 0)

    def _height(self, steps: range) -> float:
        rank = max(self.ranks[index] for index in self._shown(steps))
        return self._top(rank) + (self.tall if rank < self.graph.beam else self.thin)

    def _shown(self, steps: range) -> list[int]:
        own = [index for index, step in enumerate(self.steps) if step in steps]
        before = {self.graph.parents[index] for index in own if self.steps[index] == steps[0]}
        return [*sorted(before - {_ROOT}), *own]

    def boxes(self, top: float, steps: range) -> dict[int, Box]:
        """Return the places of a band's nodes, and of the root where it is the first band."""
        at, places, boxes = self.gutter, {}, {}
        if steps[0] == 0:
            boxes[_ROOT] = Box(at, top + self._top(0), self.root, self.tall)
            at += self.root + self.gap
        for step in steps if steps[0] == 0 else (steps[0] - 1, *steps):
            places[step] = at
            at += self.widths[step] + self.gap
        for index in self._shown(steps):
            step, tall = self.steps[index], self.tall if self.inside(index) else self.thin
            boxes[index] = Box(
                places[step], top + self._top(self.ranks[index]), self.widths[step], tall
            )
        return boxes

    def draw(self, ax: Axes) -> None:
        """Draw the tree on axes of its size."""
        ax.set(xlim=(0, self.preset.room), ylim=(self.height, 0))
        ax.set_axis_off()
        y = 0.0
        for steps in self.bands:
            boxes = self.boxes(y, steps)
            self._rulers(ax, y, boxes)
            for index, box in boxes.items():
                if index != _ROOT and self.steps[index] in steps:
                    self._edge(ax, index, boxes.get(self.graph.parents[index]), box)
            for index, box in boxes.items():
                self._node(ax, index, box, again=index != _ROOT and self.steps[index] not in steps)
            y += self._height(steps) + self.preset.text
        self._legend(ax, y + 0.75 * self.preset.small)

    def _text(
        self, ax: Axes, x: float, y: float, words: str, size: float, colour: str, **look: Any
    ) -> None:
        ax.text(x, y, words, size=size, color=colour, va="center_baseline", **look)

    def _rulers(self, ax: Axes, top: float, boxes: dict[int, Box]) -> None:
        size = self.preset.small
        nodes = {index: box for index, box in boxes.items() if index != _ROOT}
        for step, box in {self.steps[index]: box for index, box in nodes.items()}.items():
            words = "step 1" if step == 0 else str(step + 1)
            self._text(
                ax, box.x + box.width / 2, top + 0.6 * size, words, size, self.quiet, ha="center"
            )
        ranks = {self.ranks[index]: box for index, box in nodes.items()}
        for rank, box in ranks.items():
            self._text(ax, 0, box.middle, str(rank + 1), size, self.quiet)
        if max(ranks) >= self.graph.beam:
            y = top + self._top(self.graph.beam) - self.pad
            right = max(box.x + box.width for box in boxes.values())
            ax.plot([0, right], [y, y], color=self.rule, linewidth=0.5, linestyle=(0, (2, 3)))

    def _edge(self, ax: Axes, index: int, before: Box | None, box: Box) -> None:
        crowded = self.graph.beam > _MOST_DROPPED and not self.graph.kept[index]
        if before is None or crowded:
            return
        line, x, u = self.graph.lines[index], before.x + before.width, box.x
        half = (x + u) / 2
        curve = Path(
            [(x, before.middle), (half, before.middle), (half, box.middle), (u, box.middle)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        ax.add_patch(PathPatch(
            curve, fill=False, edgecolor=self._colours[line], zorder=1 + line / 10,
            linewidth=(0.5, 0.8, 1.5)[line] * self.preset.text / 8,
        ))  # fmt: skip

    @property
    def _colours(self) -> tuple[str, str, str]:
        return self.rule, self.quiet, self.preset.chrome.accent

    def _node(self, ax: Axes, index: int, box: Box, *, again: bool) -> None:
        preset, pad, unit = self.preset, self.pad, self.preset.text / 8
        root = index == _ROOT
        line = 0 if root else self.graph.lines[index]
        kept = root or self.graph.kept[index]
        lit = mixed(preset.chrome.accent, preset.paper, 0.12) if line == 2 else preset.paper
        ax.add_patch(FancyBboxPatch(
            (box.x, box.y), box.width, box.height, f"round,pad=0,rounding_size={pad / 2}",
            facecolor=lit, edgecolor=self._colours[line] if kept else "none", zorder=2,
            linewidth=(0.5, 0.6, 1.0)[line] * unit, linestyle=(0, (2, 2)) if again else "-",
        ))  # fmt: skip
        if root:
            middle = box.x + box.width / 2
            self._text(ax, middle, box.middle, "<s>", preset.text, self.quiet, ha="center")
            return
        end = self.graph.ends[index]
        if end:
            # A bar at the end of a path: solid for </s>, dashed if the length limit cut it.
            x, ink = box.x + box.width, preset.chrome.accent if line == 2 else preset.chrome.ink
            dash = (0, (1, 1)) if end == "cut" else "-"
            ax.plot([x, x], [box.y + 1, box.y + box.height - 1], color=ink, linewidth=2 * unit,
                    zorder=3, linestyle=dash, solid_capstyle="butt")  # fmt: skip
        inside, won, number = self.inside(index), line == 2, self.numbers[index]
        size, room = self._type(inside), box.width - 2 * pad
        room -= 0 if inside else width(number, preset.small) + pad
        word = fitted(self.tokens[index], size, room, bold=won)
        ink = preset.chrome.ink if kept and line else self.quiet
        bold = "bold" if won else "normal"
        above = box.y + (0.32 if self.numbered else 0.5) * box.height if inside else box.middle
        self._text(ax, box.x + pad, above, word, size, ink, weight=bold)
        if inside:
            below = box.y + 0.74 * box.height
            self._text(ax, box.x + pad, below, number, preset.small, self.quiet)
        else:
            right = box.x + box.width - pad
            self._text(ax, right, box.middle, number, preset.small, self.quiet, ha="right")

    def _legend(self, ax: Axes, y: float) -> None:
        x, size = 0.0, self.preset.small
        names = ("abandoned", "also finished", "winner")
        for name, colour, thick in reversed(
            [*zip(names, self._colours, (1, 1.5, 2.5), strict=True)]
        ):
            ax.plot([x, x + 1.7 * size], [y, y], color=colour, linewidth=thick)
            self._text(ax, x + 2.2 * size, y, name, size, self.preset.chrome.ink)
            x += width(name, size) + 3.7 * size
        if self.numbered:
            self._text(ax, x, y, "numbers: log P · score", size, self.preset.chrome.ink)
