import json

import numpy as np
import pytest

from figures.labels import plain_token
from figures.palette import THEMES, Theme, as_plotly, categorical, signed_table
from figures.positions import clocks, cosines, curves, encoding_heatmap, product_by_offset
from figures.tokens import ADDED, Added, length_bars, neighbour_bars, plane
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


def test_cosines_of_known_rows_and_products_by_offset() -> None:
    rows = np.array([[1, 0], [0, 2], [3, 3], [0, 0]], dtype=np.float32)
    half = np.sqrt(0.5)
    expected = [[1, 0, half, 0], [0, 1, half, 0], [half, half, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(cosines(rows), expected, atol=1e-6)
    assert cosines(rows).dtype == np.float32
    values = RNG.uniform(-1, 1, (7, 3)).astype(np.float32)
    drawn = rows_in(product_by_offset(np.arange(7), values, (0, 10, 40), "dark").to_dict())
    assert len(drawn) == 21
    for row in drawn:
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


HOSTILE = ("</s>", "<script>x</script>", "▁a'b\"c", "שלום", "e\u0301", "\n", "x" * 200, "datum.x")


def test_neighbours_are_drawn_in_their_order() -> None:
    ids = np.arange(len(HOSTILE)) + 7
    cosines = np.linspace(0.9, -0.3, len(HOSTILE)).astype(np.float32)
    spec = neighbour_bars(ids, HOSTILE, cosines, "dark").to_dict()
    text = json.dumps(spec, ensure_ascii=False)
    values = rows_in(spec, layer=-1)
    np.testing.assert_allclose([row["value"] for row in values], cosines)
    labels = [row["name"] for row in values]
    assert len(set(labels)) == len(HOSTILE)
    assert labels[1] == "<script>x</script>  8"
    assert "x" * 30 not in text  # long tokens are shortened
    assert "\\n" not in text  # and line breaks shown as signs
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [pytest.approx(-0.3), 1]
    assert neighbour_bars(ids[:0], (), cosines[:0], "light").to_dict()
    with pytest.raises(ValueError, match="shorter"):
        neighbour_bars(ids, (), cosines, "light")
    # Lengths are stacked by kind.
    spec = length_bars({"starts a word": {1: 3, 4: 5}, "inside a word": {1: 2}}, "dark").to_dict()
    rows = rows_in(spec)
    assert {(row["kind"], row["characters"]): row["pieces"] for row in rows} == {
        ("starts a word", 1): 3, ("starts a word", 4): 5, ("inside a word", 1): 2,
    }  # fmt: skip


@pytest.mark.parametrize("added", ADDED)
def test_the_plane_holds_every_token_and_where_it_is_moved(added: Added) -> None:
    rng = np.random.default_rng(0)
    tokens = (*HOSTILE, "</s>")
    content, moved = rng.standard_normal((2, len(tokens), 2)).astype(np.float32)
    content[-1] = content[0]  # the same token, the same embedding
    others = rng.standard_normal((3, 2)).astype(np.float32) * 9
    spec = plane(
        content, moved, tokens, [0.5, 0.25], "light",
        added=added, chosen=(2,), background=others, background_tokens=("a", "b", "<i>"),
    ).to_dict()  # fmt: skip
    drawn = [rows_in(spec, layer=layer) for layer in range(len(spec["layer"]))]
    np.testing.assert_allclose([[r["x"], r["y"]] for r in drawn[0]], others, rtol=1e-6)
    rows = drawn[-1]
    np.testing.assert_allclose([[r["x"], r["y"]] for r in rows], content, rtol=1e-6)
    np.testing.assert_allclose([[r["x2"], r["y2"]] for r in rows], moved, rtol=1e-6)
    assert [row["chosen"] for row in rows] == [i == 2 for i in range(len(tokens))]
    shown = [row["label"] for row in rows]
    assert set(shown) <= {*map(plain_token, HOSTILE), ""}
    assert shown[2] == plain_token(HOSTILE[2])  # the chosen one comes first
    assert added == "with" or shown.count("</s>") == 1  # one embedding, one label
    assert ("rule" in [layer["mark"]["type"] for layer in spec["layer"]]) == (added == "both")
    x = spec["layer"][-2]["encoding"]["x"]
    assert x["field"] == ("x2" if added == "with" else "x")
    assert x["title"] == "principal axis 1: 50% of the variance"


def test_both_axes_have_one_scale_and_hold_all_points() -> None:
    content = np.array([[0, 0], [10, 1]], dtype=np.float32)
    moved = np.array([[3, -40], [11, 2]], dtype=np.float32)
    spec = plane(content, moved, ("a", "b"), [1, 0], "light").to_dict()
    x, y = (spec["layer"][-1]["encoding"][axis]["scale"]["domain"] for axis in "xy")
    assert x[0] < 0 and x[1] > 11 and y[0] < -40 and y[1] > 2
    assert (x[1] - x[0]) / 600 == pytest.approx((y[1] - y[0]) / 430)
    # An arrow's head points along the arrow, clockwise from upright.
    angles = [row["angle"] for row in rows_in(spec, layer=-1)]
    assert angles == pytest.approx([np.degrees(np.arctan2(3, -40)), 45])
    with pytest.raises(ValueError, match=r"points of shape \(2, 2\) for 1 tokens"):
        plane(content, moved, ("a",), [0, 0], "light")
    with pytest.raises(ValueError, match="2 points for 0 background tokens"):
        plane(content, moved, ("a", "b"), [0, 0], "light", background=content)


def test_labels_never_cover_each_other_and_the_chosen_one_has_its_own() -> None:
    rng = np.random.default_rng(1)
    tokens = [f"token{i}" for i in range(200)]
    points = rng.standard_normal((200, 2)).astype(np.float32)
    spec = plane(points, points + 1, tokens, [1, 0], "light", chosen=(77,)).to_dict()
    rows = rows_in(spec, layer=-1)
    labelled = [row for row in rows if row["label"]]
    assert 5 < len(labelled) < 200
    assert rows[77]["label"] == "token77"
    domain = spec["layer"][-1]["encoding"]["x"]["scale"]["domain"]
    pixel = (domain[1] - domain[0]) / 600
    places = np.array([[row["label_x"], row["label_y"]] for row in labelled]) / pixel
    across, down = (np.abs(places[:, None, axis] - places[:, axis]) for axis in (0, 1))
    clash = (across < 40) & (down < 13) & ~np.eye(len(places), dtype=bool)
    assert not clash.any()
