"""Attention maps and differences between two; each is unchanged, and text is not markup."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.attention import describe, head_table, heatmap
from figures.compare import LIMITS, beside, describe_difference, scale_limit
from figures.exhibit import Exhibit, Offline, Panel
from figures.palette import THEMES, Theme, attention_plotly
from tests.factories import make_trace
from tests.figures.exhibits import HOSTILE
from transformer.measures.entropy import entropy_bits

TRACE = make_trace(S=7, T=5)


@pytest.mark.parametrize("theme", THEMES)
def test_the_figure_holds_the_map_as_it_is(theme: Theme) -> None:
    """As float32 of queries by keys, rows running down, dimmed keys covered."""
    weights = TRACE.cross[1, 2].astype(np.float16)
    titles = {"query_title": "translation", "key_title": "source"}
    figure = heatmap(weights, TRACE.tgt_tokens, TRACE.src_tokens, theme, dimmed_keys=(6,), **titles)
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
        heatmap(weights.T, TRACE.tgt_tokens, TRACE.src_tokens, theme)


def test_tokens_are_text_and_not_markup() -> None:
    figure = heatmap(np.eye(len(HOSTILE), dtype=np.float32), HOSTILE, HOSTILE, "dark")
    for label in [*figure.layout.xaxis.tickvals, *figure.data[0].y]:
        assert not set(label) & set("<>$\n") and len(label) < 90


def test_512_tokens_thin_their_labels() -> None:
    n = 512
    tokens = [f"t{i}" for i in range(n)]
    figure = heatmap(np.full((n, n), 1 / n, dtype=np.float32), tokens, tokens, "light")
    assert len(figure.layout.xaxis.tickvals) == 64
    assert len(figure.to_json()) < 1_600_000  # 512 x 512 float32 in base64, and little more
    assert figure.data[0].z.shape == (n, n)


def test_description_names_size_peak_and_spread() -> None:
    weights = np.array([[0.1, 0.9, 0.0], [0.25, 0.25, 0.5]], dtype=np.float32)
    text = describe(weights, ("<s>", "▁die"), ("▁a", "▁b", "</s>"))
    assert text.startswith("2 queries by 3 keys")
    assert "0.90, from query 1 <s> to key 2 _b" in text
    spread = (2 ** entropy_bits(weights)).mean()
    assert f"{spread:.1f} keys" in text
    assert "spread" not in describe(weights * 0.9, ("<s>", "▁die"), ("▁a", "▁b", "</s>"))


@pytest.mark.parametrize("theme", THEMES)
def test_the_table_of_heads_holds_every_share_and_the_means(theme: Theme) -> None:
    values = np.array([[0.1, 0.9, 0.3], [0.0, 1.0, 0.5]], dtype=np.float32)
    spec = head_table(values, theme).to_dict()
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
    limit = scale_limit(difference)
    assert limit in LIMITS
    assert np.abs(difference).max() <= limit
    smaller = [each for each in LIMITS if each < limit]
    assert all(np.abs(difference).max() > each for each in smaller)
    assert scale_limit(-difference) == limit


def test_each_side_says_where_it_looks_more() -> None:
    difference = np.array([[0.5, -0.5, 0], [0, 0.125, -0.125]], dtype=np.float32)
    said = describe_difference(difference, QUERIES, KEYS)
    assert "A looks more by up to 0.50, from query 1 _a to key 1 _x" in said
    assert "B looks more by up to 0.50, from query 1 _a to key 2 <b>" in said
    assert "the same" in describe_difference(0 * difference, QUERIES, KEYS)
    with pytest.raises(ValueError, match="rows are queries"):
        describe_difference(difference.T, QUERIES, KEYS)


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
    both = beside(
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
    one = beside("both", "Both", "Who.", {"B": figure(values, "b")})
    assert set(one.arrays) == {"weights_b", "total_b"}
    with pytest.raises(ValueError, match="no parts"):
        beside("both", "Both", "Who.", {})
