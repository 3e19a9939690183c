"""A search tree as on screen: steps from left to right, the best rank on top.

A wide tree is broken into bands, which repeat the nodes they continue with a dashed border; a tree
that is too tall for a page omits its numbers. matplotlib draws no trees: boxes and edges are placed
here.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from figures.exhibit import Graph
from figures.labels import signed
from figures.palette import mixed
from figures.paper.presets import Preset
from figures.paper.style import Sheet, fitted, label, width

_MOST_DROPPED = 5  # wider beams omit the edges to dropped nodes
_ROOT = -1  # index and step


class Tree:
    """A tree in bands no wider than the page; `height` is in points."""

    def __init__(self, graph: Graph, preset: Preset, *, numbered: bool = True) -> None:
        """Args: numbered: show log p and score."""
        self.preset, self.beam, self.parents = preset, graph.beam, graph.parents
        # The root is the last of all lists, and its width the last of the step widths.
        self.ranks = [*(round(rank) - 1 for rank in graph.column("rank")), 0]
        self.steps = [*(round(step) - 1 for step in graph.column("step")), _ROOT]
        self.tokens = [*map(label, graph.rows), label(graph.root)]
        self.lines, self.kept = [*graph.lines, 0], [*graph.kept, True]
        self.ends = [*graph.ends, ""]
        # Nodes in the beam show log p and score below the token, others log p beside it.
        totals, scores = ([*map(signed, graph.column(name))] for name in ("log p so far", "score"))
        self.numbers = [
            f"{total} · {score}" if rank < self.beam else total
            for total, score, rank in zip(totals, scores, self.ranks, strict=False)
        ] if numbered else [""] * len(totals)  # fmt: skip
        self.numbers.append("")
        self.numbered = numbered
        self.pad, self.gutter = 0.45 * preset.text, width("00", preset.small) + 0.45 * preset.text
        self.quiet = mixed(preset.chrome.ink, preset.paper, 0.66)
        faint = mixed(preset.chrome.ink, preset.paper, 0.32)
        self.colours = (faint, self.quiet, preset.chrome.accent)
        self.gap = (2.4 if numbered else 1.6) * preset.text  # between columns, for the edges
        self.tall = 1.2 * (preset.text + (preset.small if numbered else 0)) + self.pad
        self.thin = 1.5 * preset.small  # height of a node below the beam
        most = (preset.room - self.gutter - self.gap) / 2
        self.widths = [0.0] * (max(self.steps) + 2)
        for index, (step, token) in enumerate(zip(self.steps, self.tokens, strict=True)):
            word = width(token, self._size(index), bold=self.lines[index] == 2)
            number = width(self.numbers[index], preset.small)
            wide = max(word, number) if self._inside(index) else word + self.pad + number
            self.widths[step] = max(self.widths[step], min(wide + 2 * self.pad, most))
        self.bands = self._bands()
        self.height = sum(self._height(steps) + preset.text for steps in self.bands)
        self.height += 1.5 * preset.small  # the legend

    def _bands(self) -> list[range]:
        bands, first = [], 0
        x = self.gutter + self.widths[_ROOT]
        for step, wide in enumerate(self.widths[:-1]):
            if step > first and x + self.gap + wide > self.preset.room:
                bands.append(range(first, step))
                first, x = step, self.gutter + self.widths[step - 1]
            x += self.gap + wide
        return [*bands, range(first, len(self.widths) - 1)]

    def _inside(self, index: int) -> bool:
        return self.ranks[index] < self.beam  # in a tall row of the beam

    def _size(self, index: int) -> float:
        return self.preset.text if self._inside(index) else self.preset.small

    def _top(self, rank: int) -> float:
        head = 1.6 * self.preset.small + min(rank, self.beam) * (self.tall + self.pad)
        below = rank - self.beam
        return head + (self.pad + below * (self.thin + 1.5) if below >= 0 else 0)

    def _height(self, steps: range) -> float:
        rank = max(self.ranks[index] for index in self._shown(steps))
        return self._top(rank) + (self.tall if rank < self.beam else self.thin)

    def _shown(self, steps: range) -> list[int]:
        """Return the nodes that a band continues, then its own."""
        own = [index for index, step in enumerate(self.steps) if step in steps]
        before = {self.parents[index] for index in own if self.steps[index] == steps[0]}
        return [*sorted(before), *own]

    def _boxes(self, top: float, steps: range) -> dict[int, Bbox]:
        x, places = self.gutter, {}
        for step in (steps[0] - 1, *steps):
            places[step] = x
            x += self.widths[step] + self.gap
        return {
            index: Bbox.from_bounds(
                places[self.steps[index]], top + self._top(self.ranks[index]),
                self.widths[self.steps[index]], self.tall if self._inside(index) else self.thin,
            )
            for index in self._shown(steps)
        }  # fmt: skip

    def draw(self, sheet: Sheet, y: float) -> None:
        """Draw on a sheet at height `y`."""
        ax = sheet.axes(0, y, self.preset.room, self.height)
        ax.set(xlim=(0, self.preset.room), ylim=(self.height, 0))
        ax.set_axis_off()
        y = 0.0
        for steps in self.bands:
            boxes = self._boxes(y, steps)
            self._rulers(ax, y, boxes)
            for index, box in boxes.items():
                own = self.steps[index] in steps
                if own and self.parents[index] in boxes:
                    self._edge(ax, index, boxes[self.parents[index]], box)
                self._node(ax, index, box, again=not own and index != _ROOT)
            y += self._height(steps) + self.preset.text
        self._legend(ax, y + 0.75 * self.preset.small)

    def _text(self, ax: Axes, x: float, y: float, words: str, **look: Any) -> None:
        look = {"size": self.preset.small, "color": self.quiet, **look}
        ax.text(x, y, words, va="center_baseline", **look)

    def _rulers(self, ax: Axes, top: float, boxes: dict[int, Bbox]) -> None:
        size = self.preset.small
        for step, box in {self.steps[index]: box for index, box in boxes.items()}.items():
            words = {_ROOT: "", 0: "step 1"}.get(step, str(step + 1))
            self._text(ax, (box.x0 + box.x1) / 2, top + 0.6 * size, words, ha="center")
        ranks = {self.ranks[index]: box for index, box in boxes.items()}
        for rank, box in ranks.items():
            self._text(ax, 0, _middle(box), str(rank + 1))
        if max(ranks) >= self.beam:
            y = top + self._top(self.beam) - self.pad
            right = max(box.x1 for box in boxes.values())
            ax.plot([0, right], [y, y], color=self.colours[0], linewidth=0.5, linestyle=(0, (2, 3)))

    def _edge(self, ax: Axes, index: int, before: Bbox, box: Bbox) -> None:
        if self.beam > _MOST_DROPPED and not self.kept[index]:
            return
        line, half = self.lines[index], (before.x1 + box.x0) / 2
        start, end = _middle(before), _middle(box)
        places = [(before.x1, start), (half, start), (half, end), (box.x0, end)]
        curve = Path(places, [Path.MOVETO, *[Path.CURVE4] * 3])
        ax.add_patch(PathPatch(
            curve, fill=False, edgecolor=self.colours[line], zorder=1 + line / 10,
            linewidth=(0.5, 0.8, 1.5)[line] * self.preset.text / 8,
        ))  # fmt: skip

    def _node(self, ax: Axes, index: int, box: Bbox, *, again: bool) -> None:
        preset, pad, unit = self.preset, self.pad, self.preset.text / 8
        line, kept, number = self.lines[index], self.kept[index], self.numbers[index]
        lit = mixed(preset.chrome.accent, preset.paper, 0.12) if line == 2 else preset.paper
        ax.add_patch(FancyBboxPatch(
            box.p0, box.width, box.height, f"round,pad=0,rounding_size={pad / 2}",
            facecolor=lit, edgecolor=self.colours[line] if kept else "none", zorder=2,
            linewidth=(0.5, 0.6, 1.0)[line] * unit, linestyle=(0, (2, 2)) if again else "-",
        ))  # fmt: skip
        if self.ends[index]:
            # A bar at the end of a path: solid for </s>, dashed if the length limit cut it.
            ax.plot([box.x1, box.x1], [box.y0 + 1, box.y1 - 1], linewidth=2 * unit, zorder=3,
                    color=preset.chrome.accent if line == 2 else preset.chrome.ink,
                    linestyle=(0, (1, 1)) if self.ends[index] == "cut" else "-",
                    solid_capstyle="butt")  # fmt: skip
        inside, won, size = self._inside(index), line == 2, self._size(index)
        room = box.width - 2 * pad - (0 if inside else width(number, preset.small) + pad)
        word = fitted(self.tokens[index], size, room, bold=won)
        above = box.y0 + (0.32 if inside and number else 0.5) * box.height
        self._text(ax, box.x0 + pad, above, word, size=size, weight="bold" if won else "normal",
                   color=preset.chrome.ink if kept and line else self.quiet)  # fmt: skip
        if inside:
            self._text(ax, box.x0 + pad, box.y0 + 0.74 * box.height, number)
        else:
            self._text(ax, box.x1 - pad, _middle(box), number, ha="right")

    def _legend(self, ax: Axes, y: float) -> None:
        x, size, ink = 0.0, self.preset.small, self.preset.chrome.ink
        for line, name in ((2, "winner"), (1, "also finished"), (0, "abandoned")):
            ax.plot([x, x + 1.7 * size], [y, y], color=self.colours[line],
                    linewidth=(1, 1.5, 2.5)[line])  # fmt: skip
            self._text(ax, x + 2.2 * size, y, name, color=ink)
            x += width(name, size) + 3.7 * size
        if self.numbered:
            self._text(ax, x, y, "so far: log p · score", color=ink)


def _middle(box: Bbox) -> float:
    return float(box.y0 + box.y1) / 2
