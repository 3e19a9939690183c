"""One attention map: the array is unchanged, rows are queries, text is not markup."""

import json

import numpy as np
import pytest

from figures.attention import describe, head_table, heatmap
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
