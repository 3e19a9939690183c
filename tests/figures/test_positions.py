"""Figures of positions: the arrays are unchanged, the end of training is marked."""

from __future__ import annotations

import numpy as np
import pytest

from figures.palette import THEMES, Theme, as_plotly, categorical, signed_table
from figures.positions import cosines, curves, encoding_heatmap

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
    wide = encoding_heatmap(TABLE * 5, theme).data[0]
    assert wide.zmax == -wide.zmin == pytest.approx(np.abs(TABLE * 5).max())


def test_a_line_marks_where_training_ended() -> None:
    figure = encoding_heatmap(TABLE, "light", trained=4)
    assert figure.layout.shapes[0].y0 == 3.5  # between the fourth row and the fifth
    assert figure.layout.annotations[0].text == "beyond training"
    assert not encoding_heatmap(TABLE, "light", trained=9).layout.shapes


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


def test_a_line_may_end_early() -> None:
    values = np.full((9, 1), np.nan, dtype=np.float32)
    values[:4] = 3
    figure = curves(np.arange(9), values, ["learned"], "dark")
    assert figure.layout.yaxis.range[1] == pytest.approx(3.24)


def test_curves_and_names_must_fit() -> None:
    with pytest.raises(ValueError, match="9 positions and 2 lines"):
        curves(np.arange(9), TABLE[:, :3], ["a", "b"], "light")


def test_cosines_of_known_rows() -> None:
    rows = np.array([[1, 0], [0, 2], [3, 3], [0, 0]], dtype=np.float32)
    half = np.sqrt(0.5)
    expected = [[1, 0, half, 0], [0, 1, half, 0], [half, half, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(cosines(rows), expected, atol=1e-6)
    assert cosines(rows).dtype == np.float32
