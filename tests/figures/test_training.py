import pytest

from figures.training import Change, curves, differences


@pytest.mark.parametrize(
    ("updates", "kind"), [([0, 1, 3, 10, 30, 100, 300], "symlog"), ([*range(0, 400, 50)], None)]
)
def test_updates_have_a_logarithmic_axis_where_most_are_early(
    updates: list[int], kind: str | None
) -> None:
    spec = curves({"a": [(at, 1.0) for at in updates]}, "loss", "light").to_dict()
    assert spec["encoding"]["x"]["scale"].get("type") == kind


def test_a_chosen_line_has_the_colour_and_the_others_are_grey() -> None:
    lines = {name: [(0, 1.0), (9, 0.5)] for name in ("a", "b", "c")}
    color = curves(lines, "loss", "light", chosen="b").to_dict()["encoding"]["color"]
    assert color["scale"]["domain"] == ["other models", "b"]


def test_rows_stand_below_the_question_of_their_group() -> None:
    many, long = "(A) How many?", "(B) How long?"
    rows = [
        Change(name, group, 0.1, 0.1, 0.1, "")
        for name, group in (("one", many), ("two", many), ("four", long))
    ]
    spec = differences(rows, "x", "dark").to_dict()
    order = spec["layer"][1]["encoding"]["y"]["sort"]
    assert order == [many, "one", "two", long, "four"]
