import codecs
import csv
import dataclasses
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib import get_data_path
from matplotlib.font_manager import fontManager
from matplotlib.ft2font import FT2Font
from PIL import Image

import headlight
from figures.exhibit import (
    Exhibit,
    Offline,
    Panel,
    Series,
    TooLargeError,
    file_stem,
    n_numbers,
    to_csv,
    to_npz,
    unguard,
)
from figures.palette import attention_table, signed_table, weight_levels
from figures.paper import PRESETS, Preset, style, to_pdf, to_png, to_svg
from figures.paper.parts import pooled
from figures.paper.presets import DEFAULT, LEAST_TYPE
from tests.figures.drawing import Drawing, drawing
from tests.figures.exhibits import HOSTILE, bars, exhibit, hostile_panel, panel, series

_SIZES = pytest.mark.parametrize("preset", [PRESETS["one-column"], PRESETS["dark-slide"]])


def svg_texts(svg: bytes) -> list[str]:
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


def test_many_panels_fill_a_slide_with_and_without_title_and_caption() -> None:
    slide = PRESETS["slide"]
    made = exhibit(*[panel(15, 14) for _ in range(32)], columns=8)
    for preset in (slide, dataclasses.replace(slide, titled=False)):
        with drawing(made, preset) as seen:
            assert (made.title in seen.lines, made.caption in seen.lines) == (preset.titled,) * 2
            boxes = [ax.bbox for ax in seen.matrices]
            wide = max(box.x1 for box in boxes) - min(box.x0 for box in boxes)
            assert wide > 0.78 * 72 * preset.width
            area = sum(box.width * box.height for box in boxes)
            assert area > 0.25 * 72**2 * preset.width * preset.height


def test_series_show_lines_bars_and_names() -> None:
    with drawing(exhibit(series(), bars(), panel(2, 3))) as seen:
        wanted = {"Two waves", "pos", "PE", "sin", "cos", "Next token", "_das", "=x", "</b>", "0.3"}
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
def test_missing_characters_are_named(
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


def rows_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize("part", [panel(3, 4), panel(4, 3, signed=True), series(), bars()])
def test_csv_reads_back_to_the_same_numbers(part: Panel | Series) -> None:
    rows = rows_of(to_csv(exhibit(part)))
    values = part.values if isinstance(part, Panel) else np.stack(list(part.lines.values()))
    assert list(rows[0]) == ["panel", "row", "row_token", "column", "column_token", "value"]
    assert len(rows) == values.size == n_numbers(exhibit(part))
    back = np.full_like(values, 7)
    for row in rows:
        assert row["panel"] == part.title
        value = float(row["value"]) if row["value"] else np.nan
        back[int(row["row"]) - 1, int(row["column"]) - 1] = value
    np.testing.assert_array_equal(back, values)
    names = (part.rows, part.columns) if isinstance(part, Panel) else (part.lines, part.x)
    expected = [(row, str(column)) for row in names[0] for column in names[1]]
    found = [(unguard(row["row_token"]), unguard(row["column_token"])) for row in rows]
    assert found == expected and to_csv(exhibit(part)) == to_csv(exhibit(part))


def test_hostile_tokens_come_back_from_the_csv_and_none_is_a_formula() -> None:
    rows = rows_of(to_csv(exhibit(hostile_panel())))
    tokens = [row["column_token"] for row in rows[: len(HOSTILE)]]
    # Half a surrogate pair is no text that UTF-8 can hold.
    assert [unguard(token) for token in tokens] == [
        token.encode("utf-8", "replace").decode() for token in HOSTILE
    ]
    for row in rows:
        for field in ("panel", "row_token", "column_token"):
            assert row[field][:1] not in tuple("=+-@\t\r\n＝＋－＠")


#: Taken for something else by pandas or a spreadsheet, or hard to quote.
ODD = (
    "null", "nan", "NA", "N/A", "None", "<NA>", "#N/A", "1.#IND", "inf", "True", "=1+1", "-5", "+1",
    "@x", "7", "007", "1e5", ".5", "3.", "1/2", "12:30", "'5", "''=1", "\t=1", "a\n,b", 'Mü"',
)  # fmt: skip
TEXTS = st.sampled_from(ODD) | st.text("'=-@\t\r\na1e.,\" ＝", min_size=1) | st.text(min_size=1)


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example([*ODD])
@example(["2024", "0.5"])  # a column of nothing but numbers
def test_plain_pandas_reads_the_tokens_except_for_the_marker(texts: list[str]) -> None:
    data = to_csv(exhibit(Panel("", np.zeros((len(texts), 1), np.float32), tuple(texts), ("a",))))
    table = pandas.read_csv(io.BytesIO(data))
    assert data.startswith(codecs.BOM_UTF8 + b'"panel"') and table["value"].dtype == float
    tokens = table["row_token"].tolist()
    assert all(isinstance(token, str) for token in tokens)
    assert [unguard(token) for token in tokens] == texts
    for token, text in zip(tokens, texts, strict=True):
        assert token in (text, "'" + text)
        assert token.lstrip()[:1] not in tuple("=+-@＝＋－＠") and token[:1] not in tuple("\t\r\n")


def test_only_text_is_quoted_and_a_missing_value_is_an_empty_field() -> None:
    plot = Series("a", np.array([1.0, 2.0]), {"mean": np.array([0.5, np.nan])})
    lines = to_csv(exhibit(plot)).decode("utf-8-sig").split("\r\n")
    assert lines[1:] == ['"a",1,"mean",1,1.0,0.5', '"a",1,"mean",2,2.0,', ""]


def test_a_csv_of_too_many_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figures.exhibit.MOST_ROWS", 34)
    with pytest.raises(TooLargeError, match=r"35 numbers .* NPZ"):
        to_csv(exhibit(panel(5, 7)))


def test_npz_is_exact_and_needs_no_pickle() -> None:
    made = exhibit(hostile_panel(), panel(2, 5, signed=True), series(), bars())
    assert to_npz(made) == to_npz(made)
    with np.load(io.BytesIO(to_npz(made)), allow_pickle=False) as held:
        for number, part in enumerate(made.parts, start=1):
            assert held[f"part_{number}_title"] == part.title
            if isinstance(part, Panel):
                assert held[f"part_{number}"].dtype == part.values.dtype
                np.testing.assert_array_equal(held[f"part_{number}"], part.values)
                assert held[f"part_{number}_rows"].tolist() == list(part.rows)
                assert held[f"part_{number}_columns"].tolist() == list(part.columns)
            else:
                expected = np.stack(list(part.lines.values()))
                np.testing.assert_array_equal(held[f"part_{number}"], expected)
                assert held[f"part_{number}_rows"].tolist() == list(part.lines)
                assert held[f"part_{number}_columns"].tolist() == list(part.x)
        np.testing.assert_array_equal(held["weights"], made.arrays["weights"])
        np.testing.assert_array_equal(held["file"], made.arrays["file"])
        assert (held["title"], held["caption"]) == (made.title, made.caption)
        assert held["snippet"] == made.program


PANEL = panel(2, 3)


@pytest.mark.parametrize(("values", "said"), [
    (np.ones((3, 2)), "shape"), (np.ones((2, 3, 1)), "shape"),
    (np.full((2, 3), 1.5), "outside 0 to 1"), (np.full((2, 3), -0.5), "outside 0 to 1"),
    (np.full((2, 3), np.inf), "infinite"), (np.full((2, 3), "a"), "real numbers"),
    (np.full((2, 3), 1j), "real numbers"),
])  # fmt: skip
def test_a_panel_says_what_is_wrong(values: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Panel("p", values, ("a", "b"), ("c", "d", "e"))


def test_a_panel_may_miss_values_and_a_signed_one_may_leave_0_to_1() -> None:
    values = np.array([[np.nan, 1.0]])
    assert Panel("p", values, ("a",), ("b", "c")).values is values
    assert Panel("p", values * -9, ("a",), ("b", "c"), scale="diverging").values[0, 1] == -9


@pytest.mark.parametrize(("x", "lines", "said"), [
    (np.arange(3), {}, "at least one"), (np.arange(0), {"a": np.arange(0)}, "at least one"),
    (np.arange(3), {"a": np.arange(4)}, r"expected \(3,\)"),
    (np.ones((3, 1)), {"a": np.arange(3)}, "one axis"),
    (("a", "b"), {"a": np.array([1, np.inf])}, "infinite"),
])  # fmt: skip
def test_a_series_says_what_is_wrong(x: object, lines: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Series("s", x, lines)  # type: ignore[arg-type]


@given(st.lists(st.one_of(st.text(max_size=40), st.integers())))
def test_any_words_make_a_file_stem(words: list[object]) -> None:
    assert Exhibit(file_stem(*words), "t", "c", (PANEL,)).views == ()


def test_names_arrays_and_views() -> None:
    for name in ("", "../up", "a/b", "A", "a b", ".hidden", "a..b", "a.", "x" * 101):
        with pytest.raises(ValueError, match="stem"):
            Exhibit(name, "t", "c", (PANEL,))
    for name in ("part_1", "two words", "a-b", "1a"):  # arrays are named like variables
        with pytest.raises(ValueError, match="array name"):
            Exhibit("a", "t", "c", (PANEL,), arrays={name: np.ones(2)})
    with pytest.raises(ValueError, match="numbers or text"):
        Exhibit("a", "t", "c", (PANEL,), arrays={"a": np.array([{}], dtype=object)})
    view = Offline("lens", b"")
    assert exhibit(offline=view).views == (view,)
    assert exhibit(offline=(view, view)).views == (view, view)
