"""Figures for a paper: SVG with text as text, PNG with ink, and sizes that hold."""

import dataclasses
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib import get_data_path
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font
from PIL import Image

import headlight
from figures.exhibit import Exhibit, Panel, Series
from figures.palette import attention_table, signed_table, weight_levels
from figures.paper import PRESETS, Preset, style, to_pdf, to_png, to_svg
from figures.paper.matrix import pooled
from figures.paper.presets import DEFAULT, LEAST_TYPE
from tests.figures.drawing import Drawing, drawing
from tests.figures.exhibits import HOSTILE, bars, exhibit, hostile_panel, panel, series

_SIZES = pytest.mark.parametrize("preset", [PRESETS["one-column"], PRESETS["dark-slide"]])


def svg_texts(svg: bytes) -> list[str]:
    """Texts of an SVG, without the invisible marks around a right-to-left token."""
    root = ET.fromstring(svg)  # noqa: S314
    found = ("".join(each.itertext()) for each in root.iter() if each.tag.endswith("}text"))
    return [re.sub("[\u2068\u2069]", "", each) for each in found]


def test_svg_holds_tokens_titles_and_axes_as_text() -> None:
    svg = to_svg(exhibit(panel(3, 4)))
    found = svg_texts(svg)
    wanted = {"_query0", "_query2", "_key0", "_key3", "query: translation", "key: source"}
    assert wanted | {"Layer 1, head 2", 'Cross-attention <i>of</i> "all"'} <= set(found)
    assert {"weight: darker is more · square-root scale", "Said about it & <more>."} <= set(found)
    root = ET.fromstring(svg)  # noqa: S314
    assert root.get("role") == "img"
    assert [each.text for each in root[:2]] == [
        'Cross-attention <i>of</i> "all"', "Said about it & <more>.",
    ]  # fmt: skip


def test_hostile_tokens_are_text_in_the_svg() -> None:
    made = exhibit(hostile_panel())
    svg = to_svg(made)
    found = set(svg_texts(svg))
    assert {"_The", "\"quotes\" & 'more'", "שלום", "e\u0301\u0302", "two↵lines␍↵"} <= found
    assert {"=HYPERLINK(1)", "$x_1$ {{7*7}} ${7}", "∅", "<b>title</b> =1+1"} <= found
    assert any(each.startswith("<script>do") and each.endswith("/script>") for each in found)
    tags = {each.tag.partition("}")[2] for each in ET.fromstring(svg).iter()}  # noqa: S314
    assert not tags & {"script", "a", "foreignObject", "b", "i"}
    assert max(map(len, found)) < 60  # the token of 200 letters is shortened
    with drawing(made) as seen:
        (ax,) = seen.matrices
        assert len(ax.get_yticks()) == len(HOSTILE)


PLAYER, HARD = exhibit(panel(12, 14), panel(12, 9), series()), exhibit(hostile_panel())
UPDATES = Series("Loss", np.arange(400) * 50, {"loss": np.linspace(1e-4, 1e-3, 400)}, "update", "y")


@pytest.mark.parametrize(("preset", "made"), [
    *((PRESETS["dark-slide"], made) for made in (PLAYER, HARD)),
    *((PRESETS["one-column"], made) for made in (
        PLAYER, HARD,
        exhibit(*[panel(5, 5) for _ in range(16)], columns=8),
        exhibit(series(), bars(), panel(2, 3)),
        exhibit(panel(64, 14, signed=True), series(), columns=1),
        exhibit(panel(60, 75)),
        exhibit(UPDATES, UPDATES),
    )),
])  # fmt: skip
def test_a_figure_is_as_wide_as_its_column_and_legible(preset: Preset, made: Exhibit) -> None:
    with drawing(made, preset) as seen:
        width, height = seen.size
        assert width == pytest.approx(preset.width)
        assert height == pytest.approx(preset.height) if preset.height else 0 < height < 11
        for text in seen.texts:
            assert preset.height or text.get_size() >= LEAST_TYPE
            box = seen.box(text)
            assert box.x0 >= -1 and box.x1 <= 72 * width + 1, text
            assert box.y0 >= -1 and box.y1 <= 72 * height + 1, text
        titles = [seen.box(each).padded(-1) for each in seen.figure.texts]
        assert not any(one.overlaps(other) for one, other in combinations(titles, 2))
        for ax in seen.figure.axes:
            under = [seen.box(each) for each in (*ax.get_xticklabels(), ax.xaxis.label)]
            if ax.get_xlabel():
                assert not any(one.overlaps(other) for one, other in combinations(under, 2))
        frames = [ax.bbox.padded(-0.1) for ax in seen.figure.axes]
        assert not any(one.overlaps(other) for one, other in combinations(frames, 2))


def test_a_picture_has_300_dots_for_every_inch_on_white_or_dark() -> None:
    for name, width, colour in (
        ("one-column", 990, "#ffffff"), ("two-columns", 2070, "#ffffff"),
        ("dark-slide", 4000, "#0f0e0d"),
    ):  # fmt: skip
        image = Image.open(io.BytesIO(to_png(exhibit(panel(2, 2)), PRESETS[name])))
        assert image.width == width and image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
        pixel = image.convert("RGB").getpixel((2, 2))
        assert isinstance(pixel, tuple) and "#{:02x}{:02x}{:02x}".format(*pixel) == colour
    assert image.height == 2250 and DEFAULT is PRESETS["two-columns"]
    box = re.search(rb"/MediaBox ?\[ ?0 0 ([\d.]+) ([\d.]+)", to_pdf(exhibit(), PRESETS["slide"]))
    assert box is not None and (float(box[1]), float(box[2])) == (960, 540)


@_SIZES
def test_matrices_with_the_same_rows_line_up(preset: Preset) -> None:
    one, other = panel(12, 14), panel(12, 9)
    with drawing(exhibit(one, dataclasses.replace(other, rows=one.rows)), preset) as seen:
        left, right = seen.matrices
        assert left.bbox.x1 < right.bbox.x0
        assert (left.bbox.y0, left.bbox.y1) == (right.bbox.y0, right.bbox.y1)
        assert len(left.get_yticks()) == 12 and not len(right.get_yticks())


@_SIZES
def test_a_tall_matrix_beside_plots_keeps_its_size(preset: Preset) -> None:
    tall = panel(64, 14, signed=True, title="q · k, element by element")
    with drawing(exhibit(tall, series(), series(), tall, columns=1), preset) as seen:
        for ax in seen.matrices:
            assert min(ax.bbox.width, ax.bbox.height) > 6 * preset.small


def test_cells_have_the_colours_of_the_scale() -> None:
    """A shape for every cell, coloured by weight on the scale from 0 to 1."""
    values = panel(3, 4).values.copy()
    values[0, 1] = np.nan
    table = attention_table("light")[weight_levels(values.ravel())].tolist()
    with drawing(exhibit(dataclasses.replace(panel(3, 4), values=values))) as seen:
        cells = seen.cells(seen.matrices[0])
        assert [cell[3] for cell in cells] == [255, 0, *[255] * 10], "a missing value is no cell"
        assert [list(cell[:3]) for cell in cells if cell[3]] == [*table[:1], *table[2:]]
    nothing = Panel("p", values[:1] * np.nan, ("a",), tuple("bcde"), scale="diverging")
    with drawing(exhibit(nothing)) as seen:
        assert not any(cell[3] for cell in seen.cells(seen.matrices[0]))


def test_panels_of_one_quantity_share_one_scale() -> None:
    low = Panel("p", np.array([[-1.0, 1.0]]), ("a",), ("b", "c"), scale="diverging")
    high = Panel("q", np.array([[-10.0, 10.0]]), ("a",), ("b", "c"), scale="diverging")
    ends = [(*signed_table("light")[at].tolist(), 255) for at in (0, 255)]

    def cells(seen: Drawing) -> list[tuple[int, ...]]:
        return [cell for ax in seen.matrices for cell in seen.cells(ax)]

    with drawing(exhibit(low, high)) as shared:
        assert cells(shared)[2:] == ends and cells(shared)[0] not in ends
        assert shared.words.count("value") == 1 and {"−10", "10"} <= set(shared.words)
    with drawing(exhibit(dataclasses.replace(low, quantity="a × v"), high)) as apart:
        assert cells(apart) == ends * 2  # one would be pale on the other's scale
        assert {"a × v", "value"} <= set(apart.words)


def test_many_panels_name_their_axes_once() -> None:
    parts = [panel(3, 4, title=f"Layer {i // 4 + 1}, head {i % 4 + 1}") for i in range(8)]
    with drawing(exhibit(*parts, columns=4)) as seen:
        assert seen.words.count("_query0") == 2 and seen.words.count("_key0") == 4
        assert all(part.title in seen.words for part in parts)
    tight = [dataclasses.replace(part, short=f"1.{i}") for i, part in enumerate(parts * 3)]
    with drawing(exhibit(*tight, columns=8), PRESETS["one-column"]) as narrow:
        assert {part.short for part in tight} <= set(narrow.words)


def test_series_show_lines_bars_and_names() -> None:
    with drawing(exhibit(series(), bars(), panel(2, 3))) as seen:
        wanted = {"Two waves", "pos", "PE", "sin", "cos", "Next token", "_das", "=x", "</b>"}
        assert wanted <= set(seen.words)
        waves, tokens = seen.figure.axes[:2]
        assert len(waves.lines) == 2
        assert [bar.get_height() for bar in tokens.patches] == pytest.approx([0.5, 0.3])


def test_longer_maps_keep_their_strongest_cells() -> None:
    values = np.zeros((700, 1_100))
    values[333, 777], values[334, 778] = -1, 0.4
    shown = pooled(values)
    assert shown.shape == (512, 512) and shown.min() == -1 and shown.max() == 0.4
    assert np.argwhere(shown == -1).tolist() == [[244, 362]]
    assert pooled(values[:9, :9]).shape == (9, 9)


def test_png_has_ink_where_the_weights_are() -> None:
    for n, m in ((2, 3), (60, 90)):  # as shapes, and as a picture
        values = np.zeros((n, m), dtype=np.float32)
        values[n // 2 :, 2 * m // 3 :] = 1
        rows, columns = (tuple(map(str, range(side))) for side in (n, m))
        png = to_png(exhibit(Panel("p", values, rows, columns)), PRESETS["one-column"])
        pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
        dark, light = (
            np.abs(pixels - attention_table("light")[at].astype(int)).sum(axis=-1) < 3
            for at in (255, 0)
        )
        assert dark.sum() / light.sum() == pytest.approx(1 / 5, rel=0.3)
        (across, down), (right, below) = (np.argwhere(each).mean(axis=0) for each in (light, dark))
        assert right > across and below > down


def test_equal_figures_are_equal_files_from_several_threads_at_once() -> None:
    def make(columns: int) -> tuple[bytes, bytes]:
        made = exhibit(panel(2, columns))
        return to_svg(made), to_pdf(made)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(make, (3, 4))) == [make(3), make(4)]


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only the fonts that come with matplotlib."""
    own = [font for font in fontManager.ttflist if font.fname.startswith(get_data_path())]
    monkeypatch.setattr(fontManager, "ttflist", own)

    def forget() -> None:
        style._fonts.cache_clear()
        style._width.cache_clear()
        style._family_of.clear()
        style._adopted.clear()

    forget()
    yield
    forget()


def of_tokens(*tokens: str) -> Exhibit:
    return exhibit(dataclasses.replace(panel(len(tokens), 3), rows=tokens))


MISSING = ("ภาษา中文", "हिन्दी日本語", "한국어\U0001f9a5አማርኛ", "தமிழ்x\u1d2bक\u094d")


@pytest.mark.usefixtures("bundled")
@pytest.mark.parametrize("token", MISSING)
@pytest.mark.parametrize(("write", "kind"), [(to_png, "PNG"), (to_pdf, "PDF")])
def test_characters_without_a_font_are_named(
    write: Callable[[Exhibit], bytes], kind: str, token: str
) -> None:
    dejavu = FT2Font(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf")
    wanted = [each for each in dict.fromkeys(token) if not dejavu.get_char_index(ord(each))]
    assert wanted
    with pytest.warns(UserWarning, match=f"boxes in the {kind}.*SVG") as said:
        write(of_tokens("a", token, "b"))
    (ours,) = (each for each in said if "No font here" in str(each.message))
    assert ours.filename == __file__
    assert re.findall(r"(.) \(U\+", str(ours.message)) == wanted
    assert any(token in each for each in svg_texts(to_svg(of_tokens("a", token, "b"))))


@pytest.mark.usefixtures("bundled")
def test_only_the_first_of_many_are_named_and_a_saved_file_warns(tmp_path: Path) -> None:
    made = of_tokens(*("".join(map(chr, range(at, at + 10))) for at in range(0x4E00, 0x4E1E, 10)))
    with pytest.warns(UserWarning, match=r"一 \(U\+4E00\), .* 18 more: boxes in the PNG"):
        headlight.save(made, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size
    assert headlight.save(made, tmp_path / "a.svg").exists()  # a warning would be an error


@pytest.mark.usefixtures("bundled")
@pytest.mark.parametrize("write", [to_png, to_pdf])
def test_nothing_is_said_of_characters_that_are_drawn(write: Callable[[Exhibit], bytes]) -> None:
    words = (
        "naïve", "λόγος", "Привет", "שלום", "مرحبا", "e\u0301\u0302", "a\u200db", "\u200fq",
        "x\ufe0f", "y\U000e0100", "∅ − · …",
    )  # fmt: skip
    assert write(of_tokens(*words))  # a warning would be an error


@pytest.mark.usefixtures("bundled")
def test_any_installed_font_is_used_for_a_character_that_it_has() -> None:
    stix = next(font for font in fontManager.ttflist if font.name == "STIXGeneral")
    had = {font.name: {*FT2Font(font.fname).get_charmap()} for font in style._fonts().values()}
    others = set().union(*(had[name] for name in had if not name.startswith("STIX")))
    only = {*FT2Font(stix.fname).get_charmap()} - others
    token = "".join(chr(each) for each in sorted(only) if chr(each).isalpha())[:3]
    assert token and "STIXGeneral" not in style._families()
    svg, pdf = to_svg(of_tokens("a", token)), to_pdf(of_tokens("a", token))
    assert b"STIXGeneral" in svg and b"STIXGeneral" in pdf
    assert to_png(of_tokens("a", token)) == to_png(of_tokens("a", token))
