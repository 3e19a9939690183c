"""Figures for a paper: SVG with text as text, PNG with ink, and sizes that hold."""

from __future__ import annotations

import base64
import dataclasses
import io
import re
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from figures.exhibit import Exhibit, Panel
from figures.palette import attention_table, hex_of, signed_table, weight_levels
from figures.paper import PRESETS, Preset, save, to_pdf, to_png, to_svg
from figures.paper.colours import picture
from figures.paper.presets import DEFAULT, LEAST_TYPE
from figures.tables import to_csv, to_npz
from tests.figures.exhibits import HOSTILE, bars, exhibit, hostile_panel, panel, series
from tests.figures.svg import Drawing

_SIZES = pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))


def bare(words: str) -> str:
    """Remove the invisible marks around a right-to-left token."""
    return words.replace("\u2068", "").replace("\u2069", "")


def draw(made: Exhibit, preset: Preset = DEFAULT) -> Drawing:
    return Drawing(to_svg(made, preset))


def fills(drawing: Drawing) -> list[str | None]:
    return [each.get("fill") for each in drawing.all("rect", "cell")]


@pytest.fixture(scope="module")
def small() -> Drawing:
    return draw(exhibit(panel(3, 4)))


def test_svg_holds_tokens_titles_and_axes_as_text(small: Drawing) -> None:
    found = small.texts()
    wanted = {"_query0", "_query2", "_key0", "_key3", "query: translation", "key: source"}
    assert wanted | {"Layer 1, head 2", 'Cross-attention <i>of</i> "all"'} <= set(found)
    assert "weight: darker is more · square-root scale" in found
    assert small.texts("caption") == ["Said about it & <more>."]
    assert [each.text for each in small.all("title")] == ['Cross-attention <i>of</i> "all"']
    assert [each.text for each in small.all("desc")] == ["Said about it & <more>."]
    assert small.root.get("role") == "img"


@_SIZES
@pytest.mark.parametrize(
    "made",
    [
        exhibit(panel(12, 14), panel(12, 9), series()),
        exhibit(*[panel(9, 9) for _ in range(48)], columns=8),
        exhibit(series(), bars(), panel(2, 3)),
        exhibit(panel(64, 14, signed=True), series(), columns=1),
        exhibit(panel(200, 300)),
        exhibit(hostile_panel()),
    ],
    ids=["player", "grid", "mixed", "tall", "long", "hostile"],
)
def test_a_figure_is_as_wide_as_its_column_and_legible(preset: Preset, made: Exhibit) -> None:
    drawing = draw(made, preset)
    width, height = drawing.size()
    assert width == pytest.approx(preset.width, abs=1e-3)
    assert height == pytest.approx(preset.height) if preset.height else 0 < height < 11
    assert min(drawing.types()) >= LEAST_TYPE
    for kind in ("matrix", "cell", "bar"):
        for box in drawing.rects(kind):
            assert box.x >= 0 and box.right * drawing.scale <= width * 72 - preset.margin + 0.1
    for kind in ("title", "caption", "panel"):
        for words, box in drawing.text_boxes(kind):
            scale = drawing.scale if kind == "panel" else 1
            assert box.right * scale <= width * 72 + 0.1, words


@pytest.mark.parametrize(("name", "pixels"), [("one-column", 990), ("two-columns", 2070)])
def test_a_picture_has_300_dots_for_every_inch(name: str, pixels: int) -> None:
    made = to_png(exhibit(panel(3, 4)), PRESETS[name])
    image = Image.open(io.BytesIO(made))
    assert image.width == pixels
    at = made.index(b"pHYs") + 4
    assert int.from_bytes(made[at : at + 4], "big") == round(300 / 0.0254)
    assert made[at + 8] == 1, "in dots per metre"


def test_a_slide_is_a_slide_in_every_format() -> None:
    made = exhibit(panel(3, 4))
    image = Image.open(io.BytesIO(to_png(made, PRESETS["slide"])))
    assert image.size == (4000, 2250)
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", to_pdf(made, PRESETS["slide"]))
    assert box is not None and (float(box[1]), float(box[2])) == (960, 540)


@_SIZES
def test_matrices_with_the_same_rows_line_up(preset: Preset) -> None:
    one, other = panel(12, 14), panel(12, 9)
    drawing = draw(exhibit(one, dataclasses.replace(other, rows=one.rows)), preset)
    left, right = drawing.rects("matrix")
    assert left.right < right.x
    assert (left.y, left.height) == (right.y, right.height)
    rows = [
        sorted({box.y for box in drawing.rects("cell") if matrix.holds(box)})
        for matrix in (left, right)
    ]
    assert len(rows[0]) == 12 and rows[0] == rows[1]
    assert len(drawing.texts("row")) == 12, "every row has its label, once"


@_SIZES
def test_a_tall_matrix_beside_plots_keeps_its_size(preset: Preset) -> None:
    tall = panel(64, 14, signed=True, title="q · k, element by element")
    made = exhibit(tall, series(), series(), tall, columns=1)
    drawing = draw(made, preset)
    for box in drawing.rects("matrix"):
        assert box.width > 8 * preset.small and box.height > 8 * preset.small
    titles = [box for _, box in drawing.text_boxes("panel")]
    for one, other in pairwise(titles):
        assert one.right < other.x or one.y + one.height < other.y or other.x < one.x


def test_cells_have_the_colours_of_the_scale(small: Drawing) -> None:
    """A shape for every cell, coloured by weight on the scale from 0 to 1."""
    levels = weight_levels(panel(3, 4).values.ravel())
    assert fills(small) == [hex_of(attention_table("light")[level]) for level in levels]


def test_hostile_tokens_are_text_in_the_svg() -> None:
    drawing = draw(exhibit(hostile_panel()))
    found = {bare(each) for each in drawing.texts()}
    assert {"_The", "\"quotes\" & 'more'", "שלום", "e\u0301\u0302", "two↵lines␍↵"} <= found
    assert {"=HYPERLINK(1)", "$x_1$ {{7*7}} ${7}", "∅", "<b>title</b> =1+1"} <= found
    assert any(each.startswith("<script>do") and each.endswith("/script>") for each in found)
    assert {each.tag.partition("}")[2] for each in drawing.root.iter()} <= {
        "svg", "title", "desc", "rect", "g", "text", "line"
    }  # fmt: skip
    assert max(map(len, found)) < 60  # the token of 200 letters is shortened
    assert len(drawing.texts("row")) == len(HOSTILE)


def test_png_has_ink_where_the_weights_are() -> None:
    values = np.zeros((2, 3), dtype=np.float32)
    values[1, 2] = 1
    made = exhibit(Panel("p", values, ("a", "b"), tuple("cde")))
    pixels = np.asarray(Image.open(io.BytesIO(to_png(made))).convert("RGB")).astype(int)
    dark = np.abs(pixels - attention_table("light")[255].astype(int)).sum(axis=-1) < 3
    light = np.abs(pixels - attention_table("light")[0].astype(int)).sum(axis=-1) < 3
    cell = (DEFAULT.cell * 300 / 72) ** 2
    assert dark.sum() == pytest.approx(cell, rel=0.25)  # the legend ends in the same colour
    assert light.sum() == pytest.approx(5 * cell, rel=0.1)
    rows, columns = np.nonzero(light)
    below, right = np.nonzero(dark)
    assert np.median(below) > rows.mean() and np.median(right) > columns.mean()


def test_a_map_of_512_tokens_is_one_picture_of_the_right_colours() -> None:
    big = panel(512, 400)
    drawing = draw(exhibit(big))
    assert len(drawing.svg) < 2_000_000
    href = drawing.all("image")[0].get("{http://www.w3.org/1999/xlink}href")
    assert href is not None
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(href.partition(",")[2]))))
    times = pixels.shape[0] // 512
    expected = attention_table("light")[weight_levels(big.values)]
    np.testing.assert_array_equal(pixels[::times, ::times], expected)
    assert 20 < len(drawing.texts("row")) < 100


def test_longer_maps_keep_their_strongest_cells() -> None:
    values = np.zeros((700, 1_100))
    values[333, 777] = -1
    values[334, 778] = 0.4
    rows, columns = (tuple(map(str, range(n))) for n in values.shape)
    url = picture(Panel("p", values, rows, columns, scale="diverging"), 1.0, DEFAULT, 200)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))
    times = pixels.shape[0] // 512
    shown = pixels[::times, ::times]
    assert shown.shape == (512, 512, 3)
    at = tuple(np.argwhere((shown == signed_table("light")[0]).all(axis=-1))[0])
    starts = (np.arange(512) * side // 512 for side in (700, 1_100))
    blocks = zip(starts, (333, 777), strict=True)
    assert at == tuple(np.searchsorted(start, where, "right") - 1 for start, where in blocks)


def test_panels_of_one_quantity_share_one_scale() -> None:
    low = Panel("p", np.array([[-1.0, 1.0]]), ("a",), ("b", "c"), scale="diverging")
    high = Panel("q", np.array([[-10.0, 10.0]]), ("a",), ("b", "c"), scale="diverging")
    ends = [hex_of(signed_table("light")[at]) for at in (0, 255)]
    shared = draw(exhibit(low, high))
    assert fills(shared)[2:] == ends and fills(shared)[0] not in ends
    assert shared.texts("unit") == ["value"] and {"−10", "10"} <= set(shared.texts())
    apart = draw(exhibit(dataclasses.replace(low, quantity="a × v"), high))
    assert fills(apart) == ends * 2  # one would be pale on the other's scale
    assert apart.texts("unit") == ["a × v", "value"]


def test_many_panels_name_their_axes_once() -> None:
    parts = [panel(3, 4, title=f"Layer {i // 4 + 1}, head {i % 4 + 1}") for i in range(8)]
    found = draw(exhibit(*parts, columns=4)).texts()
    assert found.count("_query0") == 2 and found.count("_key0") == 4
    assert all(part.title in found for part in parts)
    tight = [dataclasses.replace(part, short=f"1.{i}") for i, part in enumerate(parts * 6)]
    narrow = draw(exhibit(*tight, columns=8), PRESETS["one-column"]).texts("panel")
    assert narrow == [part.short for part in tight]


def test_series_and_panels_stand_in_one_figure() -> None:
    drawing = draw(exhibit(series(), bars(), panel(2, 3)))
    wanted = {"Two waves", "pos", "PE", "sin", "cos", "Next token", "_das", "=x", "</b>"}
    assert wanted <= set(drawing.texts())
    assert len(drawing.all("path", "line")) == 2
    first, second = drawing.rects("bar")  # the third is unknown
    assert first.height / second.height == pytest.approx(0.5 / 0.3, rel=0.01)
    assert first.y + first.height == pytest.approx(second.y + second.height, abs=0.02)


def test_missing_values_are_no_cells() -> None:
    values = np.array([[np.nan, 0.5]])
    (cell,) = draw(exhibit(Panel("p", values, ("a",), ("b", "c")))).rects("cell")
    assert cell.x > cell.width
    nothing = Panel("p", values * np.nan, ("a",), ("b", "c"), scale="diverging")
    assert not draw(exhibit(nothing)).rects("cell")


def test_save_goes_by_the_ending(tmp_path: Path) -> None:
    made = exhibit(panel(2, 3))
    assert save(made, tmp_path / "a.CSV").read_bytes() == to_csv(made)
    assert save(made, str(tmp_path / "a.npz")).read_bytes() == to_npz(made)
    assert save(made, tmp_path / "a.py").read_text() == made.snippet
    assert save(made, tmp_path / "a.svg").read_bytes().startswith(b"<svg")
    assert save(made, tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert save(made, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"'\.gif'.*\.png, \.svg, \.pdf, \.csv, \.npz, \.py"):
        save(made, tmp_path / "a.gif")


def test_figures_are_made_from_several_threads_at_once() -> None:
    parts = [panel(2, 3 + i) for i in range(3)]
    alone = [to_svg(exhibit(part)) for part in parts]
    together: dict[int, bytes] = {}

    def make(index: int) -> None:
        together[index] = to_svg(exhibit(parts[index]))

    threads = [threading.Thread(target=make, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[index] for index in range(3)] == alone
