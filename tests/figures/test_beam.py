"""Curves of a search: the numbers drawn are the numbers given."""

import numpy as np
import pytest

from figures.beam import branch_curves, lead_by_alpha
from tests.figures.exhibits import rows_in


def test_branches_are_lines_over_their_own_steps() -> None:
    spec = branch_curves(
        {"A": [-1.0, -2.0, -2.5], "B": [-1.0, -3.0]},
        {"A": ["▁a", "<b>", "</s>"], "B": ["▁a", "x"]},
        1, ["#111111", "#222222"], "dark", title="log P",
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
