"""Charts hold the numbers given; with larger text for a projector the data stay."""

from typing import Any

import numpy as np
import pytest

from figures.attention import head_table, heatmap
from figures.beam import branch_curves, lead_by_alpha
from figures.charts import grow
from figures.heads import Cell, head_roles
from figures.layer_costs import cost_lines, path_picture
from figures.training import bars
from tests.figures.exhibits import rows_in
from transformer.measures.layer_costs import path_length
from transformer.trace.removals import Head

CHARTS = {
    "bars": lambda: bars({"greedy": 31.0, "<b> & 'x'": 0.5}, "BLEU", "dark", marked=("greedy",)),
    "table": lambda: head_table(np.full((2, 3), 0.25, np.float32), "light"),
    "heads": lambda: head_roles(
        {
            Head("cross", 0, 0): Cell(0.5, "<b>", "9%", "all"),
            Head("cross", 0, 1): Cell(-1, "noun", "4%", "", True),
        },
        Head("cross", 0, 1),
        "dark",
    ),
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
    colours = lines["encoding"]["color"]["scale"]["range"]
    assert len(set(colours)) == 3
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
    beyond = cost_lines((8, 16, 32), lines, "ms", 64, "dark")
    assert len(beyond.layer) == len(drawn) - 2


def test_a_path_is_drawn_as_far_as_it_was_walked() -> None:
    def drawn(walked: int) -> list[dict[str, object]]:
        first = path_picture("convolution", 1, 6, walked, 9, 3, "light").layer[0]
        return [each for each in first.data.values if each["state"] == "path" and "to" in each]

    steps = path_length("convolution", 5, 3)
    assert [len(drawn(walked)) for walked in range(steps + 1)] == list(range(steps + 1))
    assert (drawn(steps)[-1]["to"], drawn(steps)[-1]["above"]) == (7, steps)
    (edge,) = path_picture("recurrent", 1, 6, 0, 9, 0, "light").layer[0].data.values
    assert (edge["position"], edge["level"], edge["to"], edge["above"]) == (2, 0, 2, 1)
