"""Figures of positions: the arrays are unchanged, the end of training is marked."""

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
