"""Figures of positions and shifts: numbers are unchanged, the end of training is marked."""

import numpy as np
import pytest

from figures.palette import THEMES, Theme, as_plotly, categorical, signed_table
from figures.positions import clocks, cosines, curves, encoding_heatmap, product_by_offset
from tests.figures.exhibits import rows_in

RNG = np.random.default_rng(3)
TABLE = RNG.uniform(-1, 1, (9, 6)).astype(np.float32)
NAMES = [f"dimension <{i}>" for i in range(6)]


@pytest.mark.parametrize("theme", THEMES)
def test_the_table_is_drawn_as_it_is(theme: Theme) -> None:
    figure = encoding_heatmap(TABLE, theme)
    drawn = figure.data[0]
    np.testing.assert_array_equal(drawn.z, TABLE)
    assert drawn.z.dtype == np.float32
    assert (drawn.zmin, drawn.zmax) == (-1, 1)
    assert [list(stop) for stop in drawn.colorscale] == as_plotly(signed_table(theme))
    assert figure.layout.yaxis.title.text == "position pos"
    assert not figure.layout.shapes
    marked = encoding_heatmap(TABLE, theme, trained=4).layout
    assert marked.shapes[0].y0 == 3.5  # between the fourth row and the fifth
    assert marked.annotations[0].text == "beyond training"
    assert not encoding_heatmap(TABLE, theme, trained=9).layout.shapes
    wide = encoding_heatmap(TABLE * 5, theme).data[0]
    assert wide.zmax == -wide.zmin == pytest.approx(np.abs(TABLE * 5).max())


@pytest.mark.parametrize("theme", THEMES)
def test_one_line_per_dimension(theme: Theme) -> None:
    positions = np.arange(9)
    figure = curves(positions, TABLE[:, :3], ["a", "<b>", "$c$"], theme, trained=6)
    assert [line.name for line in figure.data] == ["a", "&lt;b&gt;", "&#36;c&#36;"]
    for column, line in enumerate(figure.data):
        np.testing.assert_array_equal(line.x, positions)
        np.testing.assert_array_equal(line.y, TABLE[:, column])
    assert [line.line.color for line in figure.data] == categorical(3, theme)
    shade = figure.layout.shapes[0]
    assert (shade.x0, shade.x1) == (5.5, 8)
    assert not curves(positions, TABLE, NAMES, theme, trained=9).layout.shapes
    short = np.full((9, 1), np.nan, dtype=np.float32)  # a line may end early
    short[:4] = 3
    assert curves(positions, short, ["x"], theme).layout.yaxis.range[1] == pytest.approx(3.24)
    with pytest.raises(ValueError, match="9 positions and 2 lines"):
        curves(positions, TABLE[:, :3], ["a", "b"], theme)


def test_cosines_of_known_rows() -> None:
    rows = np.array([[1, 0], [0, 2], [3, 3], [0, 0]], dtype=np.float32)
    half = np.sqrt(0.5)
    expected = [[1, 0, half, 0], [0, 1, half, 0], [half, half, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(cosines(rows), expected, atol=1e-6)
    assert cosines(rows).dtype == np.float32


def test_products_by_offset_keep_every_value() -> None:
    values = RNG.uniform(-1, 1, (7, 3)).astype(np.float32)
    chart = product_by_offset(np.arange(7), values, (0, 10, 40), "dark")
    rows = rows_in(chart.to_dict())
    assert len(rows) == 21
    for row in rows:
        column = ["pos 0", "pos 10", "pos 40"].index(row["from pos"])
        assert row["product"] == pytest.approx(float(values[row["k"], column]))
    with pytest.raises(ValueError, match="7 x 2"):
        product_by_offset(np.arange(7), values, (0, 1), "light")


def test_clocks_keep_every_pair_and_sine_goes_up() -> None:
    before, after, expected = RNG.uniform(-1, 1, (3, 4, 2)).astype(np.float32)
    names = ["pair 0", "pair 5", "pair 9", "pair 12"]
    rows = rows_in(clocks(before, after, expected, names, "dark").to_dict(), "pair")
    for what, pairs in (("PE(pos)", before), ("turned by k", after), ("PE(pos + k)", expected)):
        for name, (sine, cosine) in zip(names, pairs, strict=True):
            row = next(r for r in rows if r["pair"] == name and r["what"] == what)
            assert (row["y"], row["x"]) == pytest.approx((float(sine), float(cosine)))
    with pytest.raises(ValueError, match=r"expected \(2, 2\)"):
        clocks(before, after, expected, names[:2], "light")
