import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures import attention
from figures.beam import branch_curves, lead_by_alpha
from figures.charts import grow
from figures.exhibit import Exhibit, Offline, Panel
from figures.layer_costs import cost_lines, path_picture
from figures.palette import THEMES, Theme, attention_plotly
from tests.factories import make_trace
from tests.figures.exhibits import HOSTILE, rows_in
from transformer.measures.heads import entropy_bits
from transformer.measures.layer_costs import path_length

TRACE = make_trace(S=7, T=5)


@pytest.mark.parametrize("theme", THEMES)
def test_the_figure_holds_the_map_as_it_is(theme: Theme) -> None:
    weights = TRACE.cross[1, 2].astype(np.float16)
    titles = {"query_title": "translation", "key_title": "source"}
    figure = attention.heatmap(
        weights, TRACE.tgt_tokens, TRACE.src_tokens, theme, dimmed_keys=(6,), **titles
    )
    drawn = figure.data[0]
    np.testing.assert_array_equal(drawn.z, weights)
    sent = json.loads(figure.to_json())["data"][0]["z"]
    assert (sent["dtype"], sent["shape"]) == ("f4", "5, 7")
    assert (drawn.zmin, drawn.zmax) == (0, 1)
    assert [list(stop) for stop in drawn.colorscale] == attention_plotly(theme)
    assert [(s.x0, s.x1) for s in figure.layout.shapes] == [(5.5, 6.5)]
    rows, columns = figure.layout.yaxis, figure.layout.xaxis
    assert (rows.title.text, columns.title.text) == ("query: translation", "key: source")
    assert rows.autorange == "reversed"
    numbered = [f"{i} {token}" for i, token in enumerate(TRACE.tgt_tokens[1:], start=2)]
    assert list(rows.tickvals) == ["1 &lt;s&gt;", *numbered]
    assert columns.tickvals[-1] == "7 &lt;/s&gt;"
    with pytest.raises(ValueError, match=r"\(7, 5\).*5 queries and 7 keys"):
        attention.heatmap(weights.T, TRACE.tgt_tokens, TRACE.src_tokens, theme)


def test_tokens_are_text_and_not_markup() -> None:
    figure = attention.heatmap(np.eye(len(HOSTILE), dtype=np.float32), HOSTILE, HOSTILE, "dark")
    for label in [*figure.layout.xaxis.tickvals, *figure.data[0].y]:
        assert not set(label) & set("<>$\n") and len(label) < 90


def test_512_tokens_thin_their_labels() -> None:
    n = 512
    tokens = [f"t{i}" for i in range(n)]
    figure = attention.heatmap(np.full((n, n), 1 / n, dtype=np.float32), tokens, tokens, "light")
    assert len(figure.layout.xaxis.tickvals) == 64
    assert len(figure.to_json()) < 1_600_000  # 512 x 512 float32 in base64, and little more
    assert figure.data[0].z.shape == (n, n)


def test_description_names_size_peak_and_spread() -> None:
    weights = np.array([[0.1, 0.9, 0.0], [0.25, 0.25, 0.5]], dtype=np.float32)
    text = attention.describe(weights, ("<s>", "▁die"), ("▁a", "▁b", "</s>"))
    assert text.startswith("2 queries by 3 keys")
    assert "most of all, “<s>” reads “_b”, 90%" in text
    assert f"{(2 ** entropy_bits(weights)).mean():.1f} keys" in text
    assert "spread" not in attention.describe(weights * 0.9, ("<s>", "▁die"), ("▁a", "▁b", "</s>"))


@pytest.mark.parametrize("theme", THEMES)
def test_the_table_of_heads_holds_every_share_and_the_means(theme: Theme) -> None:
    values = np.array([[0.1, 0.9, 0.3], [0.0, 1.0, 0.5]], dtype=np.float32)
    spec = attention.head_table(values, theme).to_dict()
    rows = {
        (row["layer"], row["head"]): row["share"] for row in next(iter(spec["datasets"].values()))
    }
    assert len(rows) == 3 * 4
    assert rows["1", "2"] == pytest.approx(0.9)
    assert rows["2", "mean"] == pytest.approx(0.5)
    assert rows["mean", "1"] == pytest.approx(0.05)
    assert rows["mean", "mean"] == pytest.approx(values.mean())
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == [0, 1]


QUERIES, KEYS = ("▁a", "▁b"), ("▁x", "<b>", "</s>")


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=6))
def test_the_scale_holds_every_difference_and_no_smaller_one_would(values: list[float]) -> None:
    difference = np.array([values], dtype=np.float32)
    limit, largest = attention.scale_limit(difference), float(np.abs(difference).max())
    assert limit in attention.LIMITS and largest <= limit
    assert all(largest > smaller for smaller in attention.LIMITS if smaller < limit)
    assert attention.scale_limit(-difference) == limit


def test_each_side_says_where_it_looks_more() -> None:
    difference = np.array([[0.5, -0.5, 0], [0, 0.125, -0.125]], dtype=np.float32)
    said = attention.describe_difference(difference, QUERIES, KEYS)
    assert "A looks more by up to 0.50, where “_a” reads “_x”" in said
    assert "B looks more by up to 0.50, where “_a” reads “<b>”" in said
    assert "the same" in attention.describe_difference(0 * difference, QUERIES, KEYS)
    with pytest.raises(ValueError, match="rows are queries"):
        attention.describe_difference(difference.T, QUERIES, KEYS)


def figure(values: np.ndarray, title: str) -> Exhibit:
    return Exhibit(
        name="one", title=title, caption="A figure.",
        parts=(Panel("weights", values, QUERIES, KEYS),),
        arrays={"weights": values, "total": values.sum(axis=1)},
        snippet=f"import numpy as np\nweights = np.array({values.tolist()!r})\n"
        "rows = [weights[i] for i in range(len(weights))]\n"
        "total = np.array([row.sum() for row in rows])\n",
        offline=Offline("lens", b"message"), facts={"Attention": "layer 2, head 3"},
    )  # fmt: skip


def test_two_figures_become_one_whose_program_makes_the_arrays_of_both() -> None:
    values = np.arange(6).reshape(2, 3) / 8
    both = attention.beside(
        "both", "Both", "Who.", {"A": figure(values, "one"), "B": figure(1 - values, "b")}
    )
    assert [part.title for part in both.parts] == ["A: weights", "B: weights"]
    assert [view.title for view in both.views] == ["A: one", "B: b"]
    assert both.caption == "Who. A: one (layer 2, head 3); B: b (layer 2, head 3)."
    assert set(both.arrays) == {"weights_a", "total_a", "weights_b", "total_b"}
    found: dict[str, np.ndarray] = {}
    exec(compile(both.snippet, "snippet", "exec"), found)  # noqa: S102 - our own program
    for name, wanted in both.arrays.items():
        np.testing.assert_allclose(found[name], wanted)
    one = attention.beside("both", "Both", "Who.", {"B": figure(values, "b")})
    assert set(one.arrays) == {"weights_b", "total_b"}
    with pytest.raises(ValueError, match="no parts"):
        attention.beside("both", "Both", "Who.", {})


def test_a_plotly_figure_grows_in_its_text_alone() -> None:
    weights = np.full((2, 3), 1 / 3, np.float32)
    figure = attention.heatmap(
        weights, ["a", "b"], ["c", "d", "e"], "dark", query_title="q", key_title="k"
    )
    before = figure.to_json()
    larger: Any = grow(figure, 2)
    assert larger.layout.font.size == 2 * figure.layout.font.size
    assert larger.layout.xaxis.title.font.size == 2 * figure.layout.xaxis.title.font.size
    assert larger.data[0].colorbar.title.font.size == 2 * figure.data[0].colorbar.title.font.size
    np.testing.assert_array_equal(larger.data[0].z, figure.data[0].z)
    assert figure.to_json() == before


def test_branches_are_lines_over_their_own_steps() -> None:
    spec = branch_curves(
        {"A": [-1.0, -2.0, -2.5], "B": [-1.0, -3.0]},
        {"A": ["▁a", "<b>", "</s>"], "B": ["▁a", "x"]},
        1, ["#111111", "#222222"], "dark", title="log p",
    ).to_dict()  # fmt: skip
    rows = rows_in(spec, "value")
    assert [(r["branch"], r["step"], r["value"], r["token"]) for r in rows] == [
        ("A", 1, -1.0, "▁a"), ("A", 2, -2.0, "<b>"), ("A", 3, -2.5, "</s>"),
        ("B", 1, -1.0, "▁a"), ("B", 2, -3.0, "x"),
    ]  # fmt: skip
    assert [r for r in rows_in(spec, "step") if "value" not in r] == [{"step": 1}]
    domains = [layer["encoding"]["x"]["scale"]["domain"] for layer in spec["layer"]]
    assert domains == [[1, 3]] * 2  # or the axis would begin at 0
    line, options = {"A": [-1.0]}, {"theme": "light", "title": ""}
    unmarked = branch_curves(line, {"A": ["x"]}, 1, ["#111111"], **options).to_dict()  # type: ignore[arg-type]
    assert len(unmarked["layer"]) == 1  # they never part
    with pytest.raises(ValueError, match="1 values for 2 tokens"):
        branch_curves(line, {"A": ["x", "y"]}, 0, ["#111111"], **options)  # type: ignore[arg-type]


def test_leads_are_against_the_first() -> None:
    alphas = np.array([0.0, 1.0])
    scores = np.array([[-2.0, -1.5, -3.0], [-1.0, -1.25, -1.0]])
    spec = lead_by_alpha(alphas, scores, ["#1", "#2", "#3"], 0.6, "light").to_dict()
    rows = {(r["name"], r["alpha"]): r for r in rows_in(spec, "lead")}
    assert rows["#2", 0.0]["lead"] == 0.5 and rows["#2", 1.0]["lead"] == -0.25
    assert rows["#1", 0.0]["lead"] == 0.0 and rows["#3", 0.0]["score"] == -3.0
    lines = next(layer for layer in spec["layer"] if "color" in layer["encoding"])
    assert len(set(lines["encoding"]["color"]["scale"]["range"])) == 3
    with pytest.raises(ValueError, match="scores of shape"):
        lead_by_alpha(alphas, scores, ["#1"], 0.6, "light")


def test_lines_leave_out_what_was_not_measured() -> None:
    lines = {"one": np.array([1.0, 2.0, np.nan]), "two": np.array([0.5, 5.0, 50.0])}
    chart = cost_lines((8, 16, 32), lines, "ms", 16, "light")
    drawn = [layer.data.values for layer in chart.layer]
    assert [(each["name"], each["n"]) for each in drawn[0]] == [
        ("one", 8), ("one", 16), ("two", 8), ("two", 16), ("two", 32)
    ]  # fmt: skip
    assert [{"n": 16, "said": "n = d"}] in drawn
    assert len(cost_lines((8, 16, 32), lines, "ms", 64, "dark").layer) == len(drawn) - 2


def test_a_path_is_drawn_as_far_as_it_was_walked() -> None:
    def drawn(walked: int) -> list[dict[str, object]]:
        first = path_picture("convolution", 1, 6, walked, 9, 3, "light").layer[0]
        return [each for each in first.data.values if each["state"] == "path" and "to" in each]

    steps = path_length("convolution", 5, 3)
    assert [len(drawn(walked)) for walked in range(steps + 1)] == list(range(steps + 1))
    assert (drawn(steps)[-1]["to"], drawn(steps)[-1]["above"]) == (7, steps)
    (edge,) = path_picture("recurrent", 1, 6, 0, 9, 0, "light").layer[0].data.values
    assert (edge["position"], edge["level"], edge["to"], edge["above"]) == (2, 0, 2, 1)
