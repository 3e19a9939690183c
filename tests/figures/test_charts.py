"""Charts with larger text for a projector: the text grows, the data stay."""

from typing import Any

import numpy as np
import pytest

from figures.attention import head_table, heatmap
from figures.beam import lead_by_alpha
from figures.charts import grow
from figures.training import bars

CHARTS = {
    "bars": lambda: bars({"greedy": 31.0, "<b> & 'x'": 0.5}, "BLEU", "dark", marked=("greedy",)),
    "table": lambda: head_table(np.full((2, 3), 0.25, np.float32), "light"),
    "alpha": lambda: lead_by_alpha(
        np.linspace(0, 2, 5), np.zeros((5, 2)), ["#1", "#2"], 0.6, "light"
    ),
}


def numbers(spec: Any, wanted: str, path: str = "") -> dict[str, float]:
    """Return the numbers in a specification whose name ends so, by path."""
    if isinstance(spec, list):
        items: Any = enumerate(spec)
    elif isinstance(spec, dict):
        items = spec.items()
    else:
        return {}
    found = {}
    for name, value in items:
        here = f"{path}/{name}"
        if str(name).lower().endswith(wanted) and isinstance(value, int | float):
            found[here] = float(value)
        found |= numbers(value, wanted, here)
    return found


@pytest.mark.parametrize("name", CHARTS)
def test_an_altair_chart_grows_in_its_text_alone(name: str) -> None:
    chart = CHARTS[name]()
    before, after = chart.to_dict(), grow(chart, 1.5).to_dict()
    sizes = numbers(before, "fontsize")
    assert sizes
    assert numbers(after, "fontsize") == {place: 1.5 * size for place, size in sizes.items()}
    assert list(after.get("datasets", {}).values()) == list(before.get("datasets", {}).values())
    assert chart.to_dict() == before and grow(chart, 1) is chart
    assert numbers(after, "strokewidth") == numbers(before, "strokewidth")


def test_a_plotly_figure_grows_in_its_text_alone() -> None:
    weights = np.full((2, 3), 1 / 3, np.float32)
    figure = heatmap(
        weights, ["a", "b"], ["c", "d", "e"], "dark", query_title="q", key_title="k"
    )  # fmt: skip
    before = figure.to_json()
    larger: Any = grow(figure, 2)
    assert larger.layout.font.size == 2 * figure.layout.font.size
    assert larger.layout.xaxis.title.font.size == 2 * figure.layout.xaxis.title.font.size
    assert larger.data[0].colorbar.title.font.size == 2 * figure.data[0].colorbar.title.font.size
    np.testing.assert_array_equal(larger.data[0].z, figure.data[0].z)
    assert figure.to_json() == before
