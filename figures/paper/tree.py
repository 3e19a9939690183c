"""Search trees, and sentences with light on their words, drawn from boxes, lines and texts.

A tree looks as on screen: steps from left to right, the best rank at the top. A wide tree is broken
into bands, which repeat the nodes they continue with a dashed border; a tree that is too tall for a
page omits its numbers. Sentences are as large as fit; light falls from one word on the words of
the first sentence. matplotlib draws neither: boxes and edges are placed here.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from figures.exhibit import Graph, Lines
from figures.labels import show_token, signed
from figures.palette import attention_table, hex_of, ink_on, mixed, weight_levels
from figures.paper.presets import Preset
from figures.paper.style import SPACING, Sheet, fitted, label, width, wrapped, xml_safe

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


_LARGEST = 2.2  # type, in sizes of text
_NAMES = 0.16  # largest share of the width for the names beside the sentences
_FAINT = 0.05  # weights below this throw no light
_THIN = 0.03  # weight of a line that only shows where the light was


class Sentences:
    """A block of sentences of a given height, in points."""

    def __init__(self, part: Lines, preset: Preset, height: float) -> None:
        self.part, self.preset, self.height = part, preset, height
        self.lines = [
            [(" " * (at > 0 and token.startswith("▁")), _shown(token))
             for at, token in enumerate(tokens)]
            for _, tokens in part.lines
        ]  # fmt: skip
        wide = max(sum(width(gap + word, 1, bold=True) for gap, word in line)
                   for line in self.lines)  # fmt: skip
        room = _NAMES * preset.room
        self.names = [wrapped(name, preset.small, room) for name, _ in part.lines]
        self.left = max(width(name, preset.small) for name in self.names) + preset.small
        self.size = min(_LARGEST * preset.text, (preset.room - self.left) / max(wide, 1e-6))

    def draw(self, sheet: Sheet, y: float) -> None:
        """Draw on a sheet at height `y`."""
        part, preset, size = self.part, self.preset, self.size
        spare = 0.15 * self.height / len(self.lines)
        top = 0.75 * size + 1.3 * preset.small + spare  # the weights are above the first line
        middles = np.linspace(y + top, y + self.height - 1.4 * size - spare, len(self.lines))
        places = [self._places(line) for line in self.lines]
        weights = part.values[0] if part.light else 0 * part.values[0]
        if part.light:
            line, token = part.light
            left, right = places[line][token]
            for (x0, x1), on in zip(places[line], part.trail, strict=False):
                self._beam(sheet, (*places[0][on], middles[0]), (x0, x1, middles[line]), _THIN)
            for (x0, x1), weight in zip(places[0], weights, strict=True):
                if weight >= _FAINT:
                    self._beam(sheet, (x0, x1, middles[0]), (left, right, middles[line]), weight)
        for at, (name, words, spans) in enumerate(zip(self.names, self.lines, places, strict=True)):
            above = middles[at] - len(name) * SPACING * preset.small / 2
            sheet.write(name, above, preset.small, color=preset.chrome.muted)
            for token, ((_, word), (x, _)) in enumerate(zip(words, spans, strict=True)):
                if (at, token) in part.hidden:
                    continue
                lit = float(weights[token]) if at == 0 else 0.0
                look = {"color": preset.chrome.ink}
                if lit >= _FAINT:
                    look["color"] = self._light(sheet, spans[token], middles[0], lit)
                elif (at, token) in part.marked:
                    look["color"] = preset.chrome.accent
                sheet.write([word], middles[at] - 0.65 * size, size, x, weight="bold", **look)

    def _places(self, line: list[tuple[str, str]]) -> list[tuple[float, float]]:
        """Return the ends of every word in a line, from the left margin."""
        places, x = [], self.left
        for gap, word in line:
            start = x + self.size * width(gap, 1, bold=True)
            x = start + self.size * width(word, 1, bold=True)
            places.append((start, x))
        return places

    def _light(self, sheet: Sheet, span: tuple[float, float], middle: float, weight: float) -> str:
        """Light up a word, write its weight above, the largest bold; return the word's colour."""
        preset, pad = self.preset, 0.12 * self.size
        colour = hex_of(attention_table(preset.theme)[weight_levels(np.array(weight))])
        x, top = preset.margin + span[0] - pad, sheet.tall - middle - 0.62 * self.size
        box = FancyBboxPatch(
            (x, top), span[1] - span[0] + 2 * pad, 1.24 * self.size, linewidth=0,
            boxstyle=f"round,pad=0,rounding_size={0.2 * self.size}", color=colour,
            transform=sheet.points,
        )  # fmt: skip
        sheet.figure.add_artist(box)
        number = f"{weight:.2f}"
        most, wide = weight == float(self.part.values.max()), width(number, preset.small)
        if most or (weight >= 2 * _FAINT and wide <= span[1] - span[0] + 2 * pad):
            x = sum(span) / 2 - wide / 2
            y = middle - 0.75 * self.size - 1.3 * preset.small
            look = (preset.chrome.ink, "bold") if most else (preset.chrome.muted, "normal")
            sheet.write([number], y, preset.small, x, color=look[0], weight=look[1])
        return ink_on(colour)

    def _beam(
        self, sheet: Sheet, above: tuple[float, float, float], below: tuple[float, float, float],
        weight: float,
    ) -> None:  # fmt: skip
        """Draw light between two words, each with its left and right end and middle.

        Its width is the weight, whatever the length of the words.
        """
        half, wide, narrow = 0.62 * self.size, 1.2 * self.size * weight, 0.4 * self.size * weight
        (upper, y0), (lower, y1) = (((left + right) / 2, y) for left, right, y in (above, below))
        corners = [(upper - wide, y0 + half), (upper + wide, y0 + half),
                   (lower + narrow, y1 - half), (lower - narrow, y1 - half)]  # fmt: skip
        beam = Polygon(
            [(self.preset.margin + x, sheet.tall - y) for x, y in corners],
            color=self.preset.chrome.accent,
            alpha=0.5,
            linewidth=0,
            transform=sheet.points,
        )
        sheet.figure.add_artist(beam)


def _shown(token: str) -> str:
    """Return a token without its mark of a word start."""
    return show_token(xml_safe(token).lstrip("▁") or "▁", 40)
