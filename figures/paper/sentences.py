"""Sentences as large as fits, with light from one word on the words of the first sentence."""

import numpy as np
from matplotlib.patches import FancyBboxPatch, Polygon

from figures.exhibit import Lines
from figures.labels import show_token
from figures.palette import attention_table, hex_of, ink_on, weight_levels
from figures.paper.presets import Preset
from figures.paper.style import SPACING, Sheet, width, wrapped, xml_safe

_LARGEST = 2.2  # type, in sizes of text
_NAMES = 0.16  # largest share of the width for the names beside the sentences
_FAINT = 0.05  # weights below this throw no light


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
        top = 0.75 * size + 1.3 * preset.small + spare  # the weights stand above the first line
        middles = np.linspace(y + top, y + self.height - 1.4 * size - spare, len(self.lines))
        places = [self._places(line) for line in self.lines]
        weights = part.values[0] if part.light else 0 * part.values[0]
        if part.light:
            line, token = part.light
            left, right = places[line][token]
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
        """Light up a word and write its weight above; return the colour of the word."""
        preset, pad = self.preset, 0.12 * self.size
        colour = hex_of(attention_table(preset.theme)[weight_levels(np.array(weight))])
        x, top = preset.margin + span[0] - pad, sheet.tall - middle - 0.62 * self.size
        box = FancyBboxPatch(
            (x, top), span[1] - span[0] + 2 * pad, 1.24 * self.size, linewidth=0,
            boxstyle=f"round,pad=0,rounding_size={0.2 * self.size}", color=colour,
            transform=sheet.points,
        )  # fmt: skip
        sheet.figure.add_artist(box)
        if weight >= 2 * _FAINT:
            number = f"{weight:.2f}"
            x = sum(span) / 2 - width(number, preset.small) / 2
            y = middle - 0.75 * self.size - 1.3 * preset.small
            sheet.write([number], y, preset.small, x, color=preset.chrome.muted)
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
