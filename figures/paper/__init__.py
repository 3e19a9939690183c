"""Export exhibits as figures for a paper: an Altair chart on white, as SVG, PNG, or a file.

All files use the colours of the light theme, so that the figures of a paper match. Small maps are
drawn as cells that a vector program can edit, larger ones as an embedded picture with one pixel
per cell. Text is data: tokens reach the chart as values, never as expressions or markup.
"""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

import altair as alt
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from figures.attention import WEIGHT_TICKS
from figures.exhibit import Exhibit, Numbers, Panel, Series
from figures.graph import Graph
from figures.labels import show_token
from figures.palette import (
    CHROME,
    as_altair,
    attention_table,
    categorical,
    scale_words,
    signed_table,
    weight_levels,
)
from figures.paper import page
from figures.paper.presets import DEFAULT
from figures.tables import to_csv, to_npz

__all__ = ["ENDINGS", "chart", "save", "to_png", "to_python", "to_svg"]

FONT = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"
#: Dots per inch of a PNG, and the maximum number of pixels.
DPI, MOST_PIXELS = 300, 24_000_000

_CELLS_AS_SHAPES = 2_500  # maps with more cells become one picture
_FONT_SIZE = 11
_MOST_SIDE = 512  # maximum pixels of a picture before it is enlarged
_SHARP = 1_200  # minimum pixels of a picture, so that no viewer blurs its cells

# Vega has a single JavaScript engine; figures are rendered one at a time.
_ENGINE = threading.Lock()


@dataclass(frozen=True)
class _Look:
    """Sizes and options for drawing an exhibit's panels.

    Attributes:
        side: pixels of a panel's longer side.  columns: panels in a row.
        font: size of the labels.
        many: omit labels that the panel to the left or above already has.
        limits: end of the diverging scale of each quantity.
        shapes: draw cells as shapes.
    """

    side: int
    columns: int
    font: int
    many: bool
    limits: Mapping[str, float]
    shapes: bool


def chart(exhibit: Exhibit) -> alt.ConcatChart:
    """Return the figure: its parts side by side, with one colour scale per quantity."""
    look = _look(exhibit)
    names: dict[tuple[str, ...], str] = {}
    parts: list[alt.Chart | alt.LayerChart | alt.FacetChart] = []
    for index, part in enumerate(exhibit.parts):
        if isinstance(part, Panel):
            parts.append(_panel(part, look, names, *_labelled(exhibit, index, look)))
        else:
            parts.append(_series(part, look, names))
    scales = {(part.scale, part.quantity) for part in exhibit.parts if isinstance(part, Panel)}
    alike = len(scales) == 1 and all(isinstance(part, Panel) for part in exhibit.parts)
    figure = (
        alt.concat(*parts, columns=look.columns, spacing=14 if look.many else 28)
        .resolve_scale(color="shared" if alike else "independent")
        .properties(
            title=alt.TitleParams(_text(exhibit.title), anchor="start", fontSize=14, offset=12),
            background="white",
            padding=10,
        )
    )
    figure.params = [
        alt.VariableParameter(name=name, value=list(key)) for key, name in names.items()
    ]
    ink, rule = CHROME["light"].ink, CHROME["light"].rule
    styled: alt.ConcatChart = (
        figure.configure(font=FONT, aria=False)
        .configure_view(stroke=rule)
        .configure_axis(
            labelFontSize=look.font, titleFontSize=12, titleFontWeight="normal", titlePadding=8,
            labelColor=ink, titleColor=ink, domain=False, ticks=False, grid=False, labelPadding=4,
            labelLimit=400, labelOverlap=False,
        )
        .configure_legend(
            labelFontSize=_FONT_SIZE, titleFontSize=12, titleFontWeight="normal",
            labelColor=ink, titleColor=ink, labelLimit=300, symbolLimit=0,
        )
        .configure_title(color=ink, fontSize=12, fontWeight="normal")
    )  # fmt: skip
    return styled


def to_svg(exhibit: Exhibit) -> bytes:
    """Render as SVG with text as text, and the title and caption for screen readers."""
    if isinstance(exhibit.parts[0], Graph):
        return page.drawn(exhibit, DEFAULT).encode("utf-8", errors="replace")
    import vl_convert  # 40 MB of library, only needed for downloads

    spec = chart(exhibit).to_dict()
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    with _ENGINE:
        drawn = vl_convert.vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[])
    # Vega numbers gradients over the life of its engine; equal figures must be equal files.
    counted: dict[str, str] = {}
    drawn = re.sub(
        r'(<\w[^<>]* fill="url\(#|<linearGradient id=")(gradient_\d+)',
        lambda found: found[1] + counted.setdefault(found[2], f"weights{len(counted) or ''}"),
        drawn,
    )
    head = re.match(r"<svg[^>]*>", drawn)
    assert head is not None
    said = f"<title>{_xml(exhibit.title)}</title><desc>{_xml(exhibit.caption)}</desc>"
    return (head.group().replace("<svg", '<svg role="img"', 1) + said + drawn[head.end() :]).encode(
        "utf-8", errors="replace"
    )


def to_png(exhibit: Exhibit) -> bytes:
    """Render as PNG on white: 300 dots per inch, fewer if that would be too large."""
    import vl_convert

    if isinstance(exhibit.parts[0], Graph):
        with _ENGINE:
            return vl_convert.svg_to_png(page.drawn(exhibit, DEFAULT, ""), scale=1, ppi=DPI)
    svg = to_svg(exhibit).decode("utf-8")
    width, height = (float(each) for each in re.findall(r' (?:width|height)="([\d.]+)"', svg)[:2])
    dpi = min(DPI, 72 * (MOST_PIXELS / (width * height)) ** 0.5)
    # Few fonts have the word-start mark; here one missing glyph changes the font of a whole text.
    svg = svg.replace("▁", "_")
    with _ENGINE:
        return vl_convert.svg_to_png(svg, scale=1, ppi=dpi)


def to_python(exhibit: Exhibit) -> bytes:
    """Return the program that computes the figure's numbers."""
    return exhibit.snippet.encode("utf-8", errors="replace")


#: Exporters of `save`, by file extension.
ENDINGS: dict[str, Callable[[Exhibit], bytes]] = {
    ".png": to_png,
    ".svg": to_svg,
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


def _look(exhibit: Exhibit) -> _Look:
    panels = [part for part in exhibit.parts if isinstance(part, Panel)]
    count = len(exhibit.parts)
    limits: dict[str, float] = {}
    for panel in panels:
        if panel.scale == "diverging" and not np.isnan(panel.values).all():
            peak = float(np.nanmax(np.abs(panel.values)))
            limits[panel.quantity] = max(peak, limits.get(panel.quantity, 0.0))
    longest = max((max(panel.values.shape) for panel in panels), default=0)
    columns = exhibit.columns or (count if count <= 3 else int(np.ceil(count**0.5)))
    return _Look(
        side=560 if count == 1 else 300 if count <= 6 else min(200, max(130, 10 * longest)),
        columns=columns,
        font=_FONT_SIZE if count <= 6 else _FONT_SIZE - 2,
        many=count > 6,
        limits=limits,
        shapes=sum(panel.values.size for panel in panels) <= _CELLS_AS_SHAPES,
    )


def _labelled(exhibit: Exhibit, index: int, look: _Look) -> tuple[bool, bool]:
    """Return whether a panel labels its rows and its columns: not if a neighbour has the same."""
    part = exhibit.parts[index]
    if not look.many or not isinstance(part, Panel):
        return True, True
    left = exhibit.parts[index - 1] if index % look.columns else None
    above = exhibit.parts[index - look.columns] if index >= look.columns else None
    return (
        not (isinstance(left, Panel) and left.rows == part.rows),
        not (isinstance(above, Panel) and above.columns == part.columns),
    )


def _panel(
    panel: Panel,
    look: _Look,
    names: dict[tuple[str, ...], str],
    row_labels: bool,
    column_labels: bool,
) -> alt.LayerChart | alt.FacetChart:
    n, m = panel.values.shape
    cell = min(28.0, look.side / max(n, m))
    width, height = max(1.0, round(cell * m, 2)), max(1.0, round(cell * n, 2))
    step = cell * _FONT_SIZE / look.font
    x = _axis(panel.columns, panel.column_title, step, names, top=True, labels=column_labels)
    y = _axis(panel.rows, panel.row_title, step, names, top=False, labels=row_labels)
    limit, legend = None, alt.Legend(gradientLength=120, gradientThickness=10)
    if panel.scale == "attention":
        table, domain = attention_table("light"), [0.0, 1.0]
        legend.title = ["weight", *scale_words("light").split(" · ")]
        legend.values = WEIGHT_TICKS
    else:
        limit = look.limits.get(panel.quantity) or 1.0
        table, domain = signed_table("light"), [-limit, limit]
        legend.title = panel.quantity or "value"
    kind: Literal["sqrt", "linear"] = "sqrt" if limit is None else "linear"
    scale = alt.Scale(type=kind, domain=domain, range=as_altair(table), clamp=True)
    colour = alt.Color("v:Q", scale=scale, legend=legend)
    place = {
        "x": alt.X("j:O", axis=x, scale=alt.Scale(domain=list(range(m)), padding=0)),
        "y": alt.Y("i:O", axis=y, scale=alt.Scale(domain=list(range(n)), padding=0)),
    }
    if look.shapes:
        known = zip(*np.nonzero(~np.isnan(panel.values)), strict=True)
        cells = [{"i": int(i), "j": int(j), "v": float(panel.values[i, j])} for i, j in known]
        layers = [alt.Chart(alt.InlineData(values=cells)).mark_rect().encode(color=colour, **place)]
    else:
        url = _picture(panel.values, limit, table)
        image = (
            alt.Chart(alt.InlineData(values=[{"url": url}]))
            .mark_image(
                x=0, y=0, width=width, height=height, aspect=False, align="left", baseline="top"
            )
            .encode(url="url:N")
        )
        # Invisible: it provides the axes and the legend.
        frame = alt.Chart(alt.InlineData(values=[{"i": 0, "j": 0, "v": 0}])).mark_rect(opacity=0)
        layers = [image, frame.encode(color=colour, **place)]
    return alt.layer(*layers).properties(width=width, height=height, title=_heading(panel.title))


def _axis(
    tokens: tuple[str, ...] | None,
    title: str,
    step: float,
    names: dict[tuple[str, ...], str],
    *,
    top: bool,
    labels: bool = True,
) -> alt.Axis:
    """Return an axis over positions 0, 1, ... that shows tokens, thinned out if they would touch.

    `step` is the distance between two positions, in pixels at the default font size.
    """
    if tokens is None:
        return alt.Axis(title=_text(title))
    shown = tuple(show_token(_xml_safe(token)) for token in tokens)
    name = names.setdefault(shown, f"names_{len(names)}")
    every = max(1, int(np.ceil((_FONT_SIZE + 0.5) / step)))
    return alt.Axis(
        title=_text(title) if labels else None,
        labels=labels,
        labelExpr=f"{name}[datum.value]",
        values=list(range(0, len(tokens), every)),
        orient=("top" if top else "left"),
        labelAngle=-60 if top else 0,
        labelAlign="left" if top else "right",
    )


def _series(series: Series, look: _Look, names: dict[tuple[str, ...], str]) -> alt.Chart:
    labels = series.x if isinstance(series.x, tuple) else None
    n = len(series.x)
    width = max(float(look.side), min(900.0, 14.0 * n)) if labels is not None else look.side * 1.0
    x = np.arange(n) if isinstance(series.x, tuple) else series.x
    points = [
        {"x": float(at), "y": float(value), "line": name}
        for name, values in series.lines.items()
        for at, value in zip(x.tolist(), values.tolist(), strict=True)
        if value == value
    ]
    lines = list(series.lines)
    axis = _axis(labels, series.x_title, width / n, names, top=False)
    if labels is not None:
        axis.orient, axis.labelAngle, axis.labelAlign = "bottom", -60, "right"
    ordinal = labels is not None or series.mark == "bar"
    if labels is None and ordinal:
        axis.values = x[:: max(1, int(np.ceil(24 * n / width)))].tolist()
    encoding = {
        "x": alt.X("x:O", axis=axis, scale=alt.Scale(domain=x.tolist()))
        if ordinal
        else alt.X("x:Q", axis=axis, scale=alt.Scale(zero=False, nice=False)),
        "y": alt.Y("y:Q", axis=alt.Axis(title=_text(series.y_title), tickCount=6)),
        "color": alt.Color(
            "line:N",
            sort=lines,
            scale=alt.Scale(domain=lines, range=categorical(len(lines), "light")),
            legend=alt.Legend(title=None) if len(lines) > 1 else None,
        ),
    }
    base = alt.Chart(alt.InlineData(values=points))
    if series.mark == "bar":
        if len(lines) > 1:
            encoding["xOffset"] = alt.XOffset("line:N", sort=lines)
        drawn = base.mark_bar()
    elif series.mark == "point":
        drawn = base.mark_point(filled=True, size=30)
    else:
        drawn = base.mark_line(point=n <= 60, strokeWidth=1.5)
    finished: alt.Chart = drawn.encode(**encoding).properties(
        width=width,
        height=look.side * 0.55,
        title=_heading(series.title),
    )
    return finished


def _heading(title: str) -> alt.TitleParams:
    """Return the title above one part."""
    return alt.TitleParams(_text(title), anchor="start", frame="group")


def _picture(values: Numbers, limit: float | None, table: NDArray[np.uint8]) -> str:
    """Return a matrix as a PNG data URL; missing values are white.

    Args: limit: end of the diverging scale; None for the scale of attention.
    """
    values = _pooled(np.asarray(values, dtype=np.float64))
    if limit is None:
        pixels = table[weight_levels(values)]
    else:
        levels = np.nan_to_num((values / limit + 1) / 2 * 255)
        pixels = table[np.clip(np.rint(levels), 0, 255).astype(np.uint8)]
    pixels[np.isnan(values)] = 255
    times = max(1, _SHARP // max(values.shape))
    pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=False)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _pooled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce to at most `_MOST_SIDE` per side: the value farthest from 0 of each block."""
    for axis, size in enumerate(values.shape):
        if size > _MOST_SIDE:
            starts = np.arange(_MOST_SIDE) * size // _MOST_SIDE
            most = np.fmax.reduceat(values, starts, axis=axis)
            least = np.fmin.reduceat(values, starts, axis=axis)
            values = np.where(np.abs(least) > np.abs(most), least, most)
    return values


def _text(words: str) -> str:
    """Return a line of any length as plain, visible text."""
    return show_token(_xml_safe(words), limit=400) if words else ""


def _xml_safe(words: str) -> str:
    """Remove the few invisible code points that XML does not allow."""
    return re.sub("[\ufffe\uffff]", "\ufffd", words)


def _xml(words: str) -> str:
    return escape(_text(words))
