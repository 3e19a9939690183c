"""Figures for a paper: SVG with text as text, PNG with ink, small enough at any length."""

from __future__ import annotations

import base64
import dataclasses
import io
import re
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from figures import paper
from figures.exhibit import Panel
from figures.palette import attention_table, signed_table, weight_levels
from figures.paper import chart, save, to_png, to_svg
from figures.tables import to_csv, to_npz
from tests.figures.exhibits import HOSTILE, bars, exhibit, hostile_panel, panel, series

parse = ET.fromstring  # what is read here was written here

TAG = "{http://www.w3.org/2000/svg}"


def texts(svg: bytes) -> list[str]:
    found = parse(svg)
    return [each.text or "" for tag in ("text", "tspan") for each in found.iter(f"{TAG}{tag}")]


def bare(words: str) -> str:
    """Without the invisible marks that keep a right-to-left token in its place."""
    return words.replace("\u2068", "").replace("\u2069", "")


@pytest.fixture(scope="module")
def small_svg() -> bytes:
    return to_svg(exhibit(panel(3, 4)))


def test_svg_holds_tokens_titles_and_axes_as_text(small_svg: bytes) -> None:
    found = texts(small_svg)
    wanted = {"▁query0", "▁query2", "▁key0", "▁key3", "query: translation", "key: source"}
    assert wanted | {"Layer 1, head 2", 'Cross-attention <i>of</i> "all"'} <= set(found)
    assert {"weight", "darker is more", "square-root scale"} <= set(found)
    root = parse(small_svg)
    assert root.findtext(f"{TAG}title") == 'Cross-attention <i>of</i> "all"'
    assert root.findtext(f"{TAG}desc") == "Said about it & <more>."
    assert root.get("role") == "img"


def test_cells_have_the_colours_of_the_scale(small_svg: bytes) -> None:
    """A shape for every cell, coloured by weight on the scale from 0 to 1."""
    cells = [
        tuple(map(int, re.findall(r"\d+", each.get("fill", ""))))
        for group in parse(small_svg).iter(f"{TAG}g")
        if "mark-rect role-mark" in group.get("class", "")
        for each in group.findall(f"{TAG}path")
    ]
    weights = panel(3, 4).values.ravel()
    assert len(cells) == weights.size
    expected = attention_table("light")[weight_levels(weights)]
    assert np.abs(np.array(cells) - expected).max() <= 6  # the scale is drawn from 64 stops


def test_hostile_tokens_are_text_in_the_svg() -> None:
    svg = to_svg(exhibit(hostile_panel()))
    found = {bare(each) for each in texts(svg)}
    assert {"▁The", "\"quotes\" & 'more'", "שלום", "e\u0301\u0302", "two↵lines␍↵"} <= found
    assert {"=HYPERLINK(1)", "$x_1$ {{7*7}} ${7}", "∅", "<b>title</b> =1+1"} <= found
    assert any(each.startswith("<script>do") and each.endswith("/script>") for each in found)
    assert {each.tag for each in parse(svg).iter()} <= {
        f"{TAG}{name}"
        for name in ("svg", "title", "desc", "rect", "g", "path", "text", "line", "defs",
                     "linearGradient", "stop", "tspan")
    }  # fmt: skip
    assert max(map(len, found)) < 60  # the token of 200 letters is shortened


def test_png_has_ink_where_the_weights_are() -> None:
    values = np.zeros((2, 3), dtype=np.float32)
    values[1, 2] = 1
    image = Image.open(io.BytesIO(to_png(exhibit(Panel("p", values, ("a", "b"), tuple("cde"))))))
    assert image.info["dpi"][0] == pytest.approx(300, abs=1)
    pixels = np.asarray(image.convert("RGB")).astype(int)
    dark = np.abs(pixels - attention_table("light")[255].astype(int)).sum(axis=-1) < 12
    light = np.abs(pixels - attention_table("light")[0].astype(int)).sum(axis=-1) < 3
    cell = (28 * 300 / 72) ** 2
    assert dark.sum() == pytest.approx(cell, rel=0.25)  # the legend ends in the same colour
    assert light.sum() == pytest.approx(5 * cell, rel=0.1)
    rows, columns = np.nonzero(light)
    below, right = np.nonzero(dark)
    assert np.median(below) > rows.mean() and np.median(right) > columns.mean()


def test_a_map_of_512_tokens_is_one_picture_of_the_right_colours() -> None:
    big = panel(512, 400)
    svg = to_svg(exhibit(big))
    assert len(svg) < 2_000_000
    href = next(parse(svg).iter(f"{TAG}image")).get("{http://www.w3.org/1999/xlink}href")
    assert href is not None
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(href.partition(",")[2]))))
    times = pixels.shape[0] // 512
    expected = attention_table("light")[weight_levels(big.values)]
    np.testing.assert_array_equal(pixels[::times, ::times], expected)
    assert 20 < sum(each.startswith("▁query") for each in texts(svg)) < 100


def test_longer_maps_keep_their_strongest_cells() -> None:
    values = np.zeros((700, 1_100))
    values[333, 777] = -1
    values[334, 778] = 0.4
    url = paper._picture(values, 1.0, signed_table("light"))
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))
    times = pixels.shape[0] // 512
    shown = pixels[::times, ::times]
    assert shown.shape == (512, 512, 3)
    at = tuple(np.argwhere((shown == signed_table("light")[0]).all(axis=-1))[0])
    starts = (np.arange(512) * side // 512 for side in (700, 1_100))
    blocks = zip(starts, (333, 777), strict=True)
    assert at == tuple(np.searchsorted(start, where, "right") - 1 for start, where in blocks)


def test_panels_share_one_scale() -> None:
    small = panel(2, 2, signed=True)
    large = Panel("q", small.values * 10, small.rows, small.columns, scale="diverging")
    spec = chart(exhibit(small, large)).to_dict()
    domains = [part["layer"][0]["encoding"]["color"]["scale"]["domain"] for part in spec["concat"]]
    limit = float(np.abs(large.values).max())
    assert domains == [[-limit, limit]] * 2
    other = dataclasses.replace(small, quantity="a × v")  # would be pale on the other's scale
    spec = chart(exhibit(other, large)).to_dict()
    domains = [part["layer"][0]["encoding"]["color"]["scale"]["domain"] for part in spec["concat"]]
    assert domains == [[-limit / 10, limit / 10], [-limit, limit]]
    assert spec["resolve"]["scale"]["color"] == "independent"
    weights = chart(exhibit(panel(2, 3), panel(3, 2))).to_dict()["concat"]
    assert all(
        part["layer"][0]["encoding"]["color"]["scale"]["domain"] == [0, 1] for part in weights
    )


def test_many_panels_name_their_axes_once() -> None:
    parts = [panel(3, 4, title=f"Layer {i // 4 + 1}, head {i % 4 + 1}") for i in range(8)]
    found = texts(to_svg(exhibit(*parts, columns=4)))
    assert found.count("▁query0") == 2 and found.count("▁key0") == 4
    assert all(part.title in found for part in parts)


def test_series_and_panels_stand_in_one_figure() -> None:
    found = texts(to_svg(exhibit(series(), bars(), panel(2, 3))))
    assert {"Two waves", "pos", "PE", "sin", "cos", "Next token", "▁das", "=x", "</b>"} <= set(
        found
    )


def test_missing_values_are_no_cells() -> None:
    values = np.array([[np.nan, 0.5]])
    spec = chart(exhibit(Panel("p", values, ("a",), ("b", "c")))).to_dict()
    (cells,) = spec["datasets"].values()
    assert [each["j"] for each in cells] == [1]
    chart(exhibit(Panel("p", values * np.nan, ("a",), ("b", "c"), scale="diverging"))).to_dict()


def test_save_goes_by_the_ending(tmp_path: Path) -> None:
    made = exhibit(panel(2, 3))
    assert save(made, tmp_path / "a.CSV").read_bytes() == to_csv(made)
    assert save(made, str(tmp_path / "a.npz")).read_bytes() == to_npz(made)
    assert save(made, tmp_path / "a.py").read_text() == made.snippet
    assert save(made, tmp_path / "a.svg").read_bytes().startswith(b"<svg")
    assert save(made, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"'\.gif'.*\.png, \.svg, \.csv, \.npz, \.py"):
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


def test_every_hostile_token_is_in_the_chart_as_a_value() -> None:
    """Tokens are values of a parameter; no expression holds their text."""
    spec = chart(exhibit(hostile_panel())).to_dict()
    assert [len(each["value"]) for each in spec["params"]] == [len(HOSTILE)]
    axes = [spec["concat"][0]["layer"][0]["encoding"][side]["axis"] for side in "xy"]
    assert {axis["labelExpr"] for axis in axes} == {"names_0[datum.value]"}


def test_a_legend_of_weights_and_one_of_differences_have_their_own_colours() -> None:
    drawn = to_svg(exhibit(panel(2, 3), panel(2, 3, signed=True))).decode()
    names = re.findall(r'<linearGradient id="([^"]*)"', drawn)
    assert len(names) == len(set(names)) == 2
    assert set(re.findall(r'fill="url\(#([^)]*)\)', drawn)) == set(names)
