"""A search tree on paper, as on screen: steps from left to right, the best rank on top.

A tree that is too wide goes on below, where the nodes that the next step continues are repeated
with a dashed border; one that is too tall for a page leaves out its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from figures.graph import Graph
from figures.numbers import signed
from figures.palette import mixed
from figures.paper.legend import Sample, legend
from figures.paper.pen import Block, Pen, label, number
from figures.paper.presets import Preset
from figures.paper.text import fitted, width_of

_MOST_DROPPED = 5  # wider beams than this leave out edges to what they dropped
_ROOT = -1


@dataclass(frozen=True)
class Box:
    """Where a node stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Its height's middle, where edges start and end."""
        return self.y + self.height / 2


def tree(graph: Graph, preset: Preset, room: float, most: float) -> Block:
    """Return the tree in as many bands as it needs to be no wider than `room`.

    Args:
        most: height in points above which the numbers are left out.
    """
    full = _block(_Tree(graph, preset, room, numbered=True))
    return full if full.height <= most else _block(_Tree(graph, preset, room, numbered=False))


def _block(look: _Tree) -> Block:
    preset, bands, y = look.preset, [], 0.0
    for steps in look.bands():
        bands.append((y, steps))
        y += look.height(steps) + preset.text
    chrome = preset.chrome
    samples = [
        Sample("winner", chrome.accent, 2.5), Sample("also finished", look.quiet, 1.5),
        Sample("abandoned", look.rule, 1),
    ]  # fmt: skip
    if look.numbered:
        samples.append(Sample("numbers: log P · score", "", -1))
    names = legend(samples, preset, look.room)

    def draw(pen: Pen, left: float, top: float) -> None:
        for down, steps in bands:
            look.draw(pen, left, top + down, steps)
        names.draw(pen, left, top + y)

    return Block(look.room, y + names.height, draw)


@dataclass(frozen=True)
class _Tree:
    """The sizes of a tree's columns and rows, and how each band of them is drawn."""

    graph: Graph
    preset: Preset
    room: float
    numbered: bool

    @property
    def pad(self) -> float:
        return 0.45 * self.preset.text

    @property
    def gap(self) -> float:
        """Between two columns, where the edges run."""
        return (2.4 if self.numbered else 1.6) * self.preset.text

    @property
    def gutter(self) -> float:
        """Left of the columns: the rank."""
        return width_of("00", self.preset.small) + self.pad

    @property
    def tall(self) -> float:
        lines = self.preset.text + (self.preset.small if self.numbered else 0)
        return 1.2 * lines + self.pad

    @property
    def thin(self) -> float:
        return 1.5 * self.preset.small

    @property
    def quiet(self) -> str:
        return mixed(self.preset.chrome.ink, self.preset.paper, 0.66)

    @property
    def rule(self) -> str:
        return mixed(self.preset.chrome.ink, self.preset.paper, 0.32)

    @cached_property
    def ranks(self) -> list[int]:
        return [round(rank) - 1 for rank in self.graph.column("rank")]

    @cached_property
    def steps(self) -> list[int]:
        return [round(step) - 1 for step in self.graph.column("step")]

    @cached_property
    def tokens(self) -> list[str]:
        return [label(token) for token in self.graph.rows]

    @cached_property
    def numbers(self) -> list[str]:
        """Below a token of the beam log P and score, beside one below it log P alone."""
        if not self.numbered:
            return [""] * len(self.ranks)
        both = zip(self.graph.column("log P"), self.graph.column("score"), strict=True)
        return [
            f"{signed(total)} · {signed(score)}" if self.inside(index) else signed(total)
            for index, (total, score) in enumerate(both)
        ]

    @cached_property
    def widths(self) -> list[float]:
        """Of the nodes of each step: that of the widest."""
        most = (self.room - self.gutter - self.gap) / 2
        widths = [0.0] * (max(self.steps) + 1)
        for index, step in enumerate(self.steps):
            word = width_of(self.tokens[index], self.type_of(index), bold=self.won(index))
            wide = width_of(self.numbers[index], self.preset.small)
            wide = max(word, wide) if self.inside(index) else word + self.pad + wide
            widths[step] = max(widths[step], min(wide + 2 * self.pad, most))
        return widths

    @property
    def root(self) -> float:
        return width_of("<s>", self.preset.text) + 2 * self.pad

    def inside(self, index: int) -> bool:
        """Whether a node's row is one of the beam's, which are tall."""
        return self.ranks[index] < self.graph.beam

    def won(self, index: int) -> bool:
        return self.graph.lines[index] == 2

    def type_of(self, index: int) -> float:
        return self.preset.text if self.inside(index) else self.preset.small

    def bands(self) -> list[range]:
        """The steps of each band."""
        bands, first = [], 0
        x = self.gutter + self.root
        for step, width in enumerate(self.widths):
            if step > first and x + self.gap + width > self.room:
                bands.append(range(first, step))
                first, x = step, self.gutter + self.widths[step - 1]
            x += self.gap + width
        return [*bands, range(first, len(self.widths))]

    def top(self, rank: int) -> float:
        beam = self.graph.beam
        head, tall, thin = 1.6 * self.preset.small, self.tall + self.pad, self.thin + 1.5
        below = max(0, rank - beam)
        return head + min(rank, beam) * tall + (self.pad + below * thin if rank >= beam else 0)

    def height(self, steps: range) -> float:
        rank = max(self.ranks[index] for index in self.shown(steps))
        return self.top(rank) + (self.tall if rank < self.graph.beam else self.thin)

    def shown(self, steps: range) -> list[int]:
        """The nodes of a band, those that are repeated first."""
        own = [index for index, step in enumerate(self.steps) if step in steps]
        before = {self.graph.parents[index] for index in own if self.steps[index] == steps[0]}
        return [*sorted(before - {_ROOT}), *own]

    def boxes(self, left: float, top: float, steps: range) -> dict[int, Box]:
        """Where the nodes of a band stand, and the root where it is the first."""
        at = left + self.gutter
        places: dict[int, float] = {}
        boxes = {}
        if steps[0] == 0:
            boxes[_ROOT] = Box(at, top + self.top(0), self.root, self.tall)
            at += self.root + self.gap
        for step in steps if steps[0] == 0 else (steps[0] - 1, *steps):
            places[step] = at
            at += self.widths[step] + self.gap
        for index in self.shown(steps):
            step, rank = self.steps[index], self.ranks[index]
            tall = self.tall if self.inside(index) else self.thin
            boxes[index] = Box(places[step], top + self.top(rank), self.widths[step], tall)
        return boxes

    def draw(self, pen: Pen, left: float, top: float, steps: range) -> None:
        boxes = self.boxes(left, top, steps)
        self._rulers(pen, left, top, steps, boxes)
        for line in (0, 1, 2):
            for index, box in boxes.items():
                if index != _ROOT and self.steps[index] in steps:
                    self._edge(pen, index, line, boxes.get(self.graph.parents[index]), box)
        for index, box in boxes.items():
            if index == _ROOT:
                pen.rect(
                    box.x, box.y, box.width, box.height, self.preset.paper, stroke=self.rule,
                    thick=0.5, radius=self.pad / 2, kind="node",
                )  # fmt: skip
                pen.text(
                    box.x + box.width / 2, box.middle, "<s>", self.preset.text, self.quiet,
                    anchor="middle", italic=True,
                )  # fmt: skip
            else:
                self._node(pen, index, box, again=self.steps[index] not in steps)

    def _rulers(
        self, pen: Pen, left: float, top: float, steps: range, boxes: dict[int, Box]
    ) -> None:
        """Steps along the top and ranks along the left; a line above what was dropped."""
        size = self.preset.small
        over = {self.steps[index]: box for index, box in boxes.items() if index != _ROOT}
        for step, box in over.items():
            words = "step 1" if step == 0 else str(step + 1)
            pen.text(box.x + box.width / 2, top + 0.6 * size, words, size, self.quiet,
                     anchor="middle")  # fmt: skip
        beside = {self.ranks[index]: box for index, box in boxes.items() if index != _ROOT}
        for rank, box in beside.items():
            pen.text(left, box.middle, str(rank + 1), size, self.quiet)
        if max(beside) >= self.graph.beam:
            y = top + self.top(self.graph.beam) - self.pad
            right = max(box.x + box.width for box in boxes.values())
            pen.line(left, y, right, y, self.rule, 0.5, "2 3")

    def _edge(self, pen: Pen, index: int, line: int, before: Box | None, box: Box) -> None:
        crowded = self.graph.beam > _MOST_DROPPED and not self.graph.kept[index]
        if before is None or self.graph.lines[index] != line or crowded:
            return
        x, y, u, v = before.x + before.width, before.middle, box.x, box.middle
        half = number((x + u) / 2)
        start, end = f"{number(x)} {number(y)}", f"{number(u)} {number(v)}"
        colour = (self.rule, self.quiet, self.preset.chrome.accent)[line]
        d = f"M{start}C{half} {number(y)} {half} {number(v)} {end}"
        pen.path(d, colour, (0.5, 0.8, 1.5)[line] * self.preset.text / 8, kind="edge")

    def _node(self, pen: Pen, index: int, box: Box, *, again: bool) -> None:
        graph, preset, pad = self.graph, self.preset, self.pad
        chrome, line, end = preset.chrome, graph.lines[index], graph.ends[index]
        kept, unit = graph.kept[index], preset.text / 8
        lit = mixed(chrome.accent, preset.paper, 0.12) if line == 2 else preset.paper
        border = (self.rule, self.quiet, chrome.accent)[line] if kept else ""
        pen.rect(
            box.x, box.y, box.width, box.height, lit, stroke=border, radius=pad / 2, kind="node",
            thick=(0.5, 0.6, 1.0)[line] * unit, dash="2 2" if again else "",
        )  # fmt: skip
        if end:
            # A bar at the end of a path: solid for </s>, dashed if the length limit cut it.
            x, colour = box.x + box.width, chrome.accent if line == 2 else chrome.ink
            dash = "2 2" if end == "cut" else ""
            pen.line(x, box.y + 1, x, box.y + box.height - 1, colour, 2 * unit, dash)
        ink = chrome.ink if kept and line else self.quiet
        size, won, left = self.type_of(index), line == 2, box.x + pad
        room = box.width - 2 * pad
        if self.inside(index):
            word = fitted(self.tokens[index], size, room, bold=won)
            above = box.y + (0.32 if self.numbered else 0.5) * box.height
            pen.text(left, above, word, size, ink, bold=won, kind="token")
            below = box.y + 0.74 * box.height
            pen.text(left, below, self.numbers[index], preset.small, self.quiet)
            return
        room -= width_of(self.numbers[index], preset.small) + pad
        word = fitted(self.tokens[index], size, room, bold=won)
        pen.text(left, box.middle, word, size, ink, bold=won, kind="token")
        right = box.x + box.width - pad
        pen.text(right, box.middle, self.numbers[index], preset.small, self.quiet, anchor="end")
