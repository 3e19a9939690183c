"""Export exhibits as SVG, PNG or PDF files at a preset size, and their data as tables.

matplotlib is imported with the first figure. It is not thread-safe, so figures are drawn one at a
time.
"""

import io
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from figures.exhibit import Exhibit, to_csv, to_npz
from figures.paper.presets import DEFAULT, HALL, POINTS, PRESETS, Preset

__all__ = [
    "DEFAULT", "ENDINGS", "HALL", "PRESETS", "Preset", "save", "to_pages", "to_pdf", "to_png",
    "to_python", "to_svg",
]  # fmt: skip

#: Maximum number of pixels of a PNG.
MOST_PIXELS = 60_000_000
_MOST_NAMED = 12  # characters

_LOCK = threading.Lock()
Say = Callable[[str], None]
Report = Callable[[int, int], None]


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=4)


def to_svg(exhibit: Exhibit, preset: Preset = DEFAULT) -> bytes:
    """Return an SVG with selectable text, and the title and caption for screen readers."""
    svg = _rendered(exhibit, preset, "svg", {"Title": exhibit.title, "Date": None}, lambda _: None)
    start = svg.index(b"<svg") + len(b"<svg")  # matplotlib writes a document type before it
    described = f"</title>\n <desc>{escape(exhibit.legend)}</desc>".encode("utf-8", "replace")
    return b'<svg role="img"' + svg[start:].replace(b"</title>", described, 1)


def to_png(exhibit: Exhibit, preset: Preset = DEFAULT, say: Say = _warn) -> bytes:
    """Return a PNG with the dots per inch of the preset, or fewer if it would be too large.

    Args: say: called with a line that names characters missing from all installed fonts.
    """
    return _rendered(exhibit, preset, "png", {"Software": "Headlight"}, say)


def to_pdf(exhibit: Exhibit, preset: Preset = DEFAULT, say: Say = _warn) -> bytes:
    """Return a PDF page in the figure's size, with embedded fonts; `say` as for `to_png`."""
    return _rendered(exhibit, preset, "pdf", {"Title": exhibit.title, "CreationDate": None}, say)


def to_pages(exhibits: Sequence[Exhibit], preset: Preset, report: Report) -> bytes:
    """Return a PDF with one exhibit per numbered page, each fact on its own line.

    Args: report: called with (pages done, all pages).
    """
    from matplotlib.backends.backend_pdf import PdfPages

    from figures.paper.page import drawn
    from figures.paper.style import style

    file = io.BytesIO()
    pages: Any = PdfPages(file, metadata={"CreationDate": None})
    for done, exhibit in enumerate(exhibits):
        report(done, len(exhibits))
        with _LOCK, style(preset):
            pages.savefig(drawn(exhibit, preset, f"{done + 1} / {len(exhibits)}"))
    with _LOCK, style(preset):  # which embeds the fonts
        pages.close()
    return file.getvalue()


def _rendered(
    exhibit: Exhibit, preset: Preset, kind: str, metadata: dict[str, str | None], say: Say
) -> bytes:
    from figures.paper.page import drawn
    from figures.paper.style import missing, style, xml_safe

    file = io.BytesIO()
    safe = {name: value and xml_safe(value) for name, value in metadata.items()}
    own = kind != "svg"
    with _LOCK, style(preset, own=own):
        figure = drawn(exhibit, preset)
        if absent := missing(figure):
            with style(preset, own=own):  # now with other installed families
                figure = drawn(exhibit, preset)
            absent = missing(figure)
        area = figure.bbox.width * figure.bbox.height
        dpi = min(preset.dpi, (MOST_PIXELS / area) ** 0.5 * POINTS)
        figure.savefig(file, format=kind, dpi=dpi, metadata=safe)
    if absent:
        names = [f"{character} (U+{ord(character):04X})" for character in absent[:_MOST_NAMED]]
        more = f" and {len(absent) - _MOST_NAMED} more" if len(absent) > _MOST_NAMED else ""
        say(
            f"No font here has {', '.join(names)}{more}: boxes in the {kind.upper()}. "
            "The SVG keeps text, which its viewer's fonts draw."
        )
    return file.getvalue()


def to_python(exhibit: Exhibit) -> bytes:
    """Return the program that computes the figure's numbers."""
    return exhibit.program.encode("utf-8", errors="replace")


#: Exporters of `save`, by file extension.
ENDINGS: dict[str, Callable[[Exhibit], bytes]] = {
    ".png": to_png, ".svg": to_svg, ".pdf": to_pdf, ".csv": to_csv, ".npz": to_npz,
    ".py": to_python,
}  # fmt: skip


def save(exhibit: Exhibit, path: str | Path) -> Path:
    """Write an exhibit to a file in the format of its extension. Returns: the path.

    Raises: `ValueError` for an extension outside `ENDINGS` (`ui.export.html.save` writes HTML), or
    if the format cannot hold the numbers; `OSError`.
    """
    path = Path(path)
    write = ENDINGS.get(path.suffix.lower())
    if write is None:
        raise ValueError(
            f"{path.name!r} ends in {path.suffix!r}; a figure can be saved as {', '.join(ENDINGS)}"
            ", and by headlight.save as .html"
        )
    path.write_bytes(write(exhibit))
    return path
