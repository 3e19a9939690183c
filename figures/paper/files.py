"""The files that a figure can be saved as."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from figures.exhibit import Exhibit
from figures.paper.page import drawn
from figures.paper.presets import DEFAULT, POINTS, Preset
from figures.tables import to_csv, to_npz

#: Dots per inch of a PNG, and the maximum number of pixels.
DPI, MOST_PIXELS = 300, 60_000_000

# The library that renders files works on one at a time.
_ENGINE = threading.Lock()


def to_svg(exhibit: Exhibit, preset: Preset = DEFAULT) -> bytes:
    """Return an SVG with text as text, and the title and caption for screen readers."""
    return drawn(exhibit, preset).encode("utf-8", errors="replace")


def to_png(exhibit: Exhibit, preset: Preset = DEFAULT) -> bytes:
    """Return a PNG of 300 dots per inch, of fewer if it would be too large."""
    import vl_convert  # 40 MB of library, only needed for downloads

    svg = drawn(exhibit, preset, unit="")
    width, height = (
        float(svg.split(f' {name}="')[1].split('"')[0]) for name in ("width", "height")
    )
    dpi = min(DPI, POINTS * (MOST_PIXELS / (width * height)) ** 0.5)
    with _ENGINE:
        # A hair more: the width in pixels is rounded down.
        return vl_convert.svg_to_png(svg, scale=1, ppi=dpi * (1 + 1e-5))


def to_pdf(exhibit: Exhibit, preset: Preset = DEFAULT) -> bytes:
    """Return a PDF of one page, as large as the figure."""
    import vl_convert

    with _ENGINE:
        return vl_convert.svg_to_pdf(drawn(exhibit, preset, unit=""))


def to_python(exhibit: Exhibit) -> bytes:
    """Return the program that computes the figure's numbers."""
    return exhibit.snippet.encode("utf-8", errors="replace")


#: Exporters of `save`, by file extension.
ENDINGS: dict[str, Callable[[Exhibit], bytes]] = {
    ".png": to_png,
    ".svg": to_svg,
    ".pdf": to_pdf,
    ".csv": to_csv,
    ".npz": to_npz,
    ".py": to_python,
}


def save(exhibit: Exhibit, path: str | Path) -> Path:
    """Write an exhibit to a file, in the format of its extension. Returns: the path.

    Raises: `ValueError` for an extension that is not in `ENDINGS` (`ui.export.html.save` writes
    pages for a browser), or if the format cannot hold the numbers; `OSError`.
    """
    path = Path(path)
    write = ENDINGS.get(path.suffix.lower())
    if write is None:
        raise ValueError(
            f"{path.name!r} ends in {path.suffix!r}; a figure can be saved as {', '.join(ENDINGS)}"
        )
    path.write_bytes(write(exhibit))
    return path
