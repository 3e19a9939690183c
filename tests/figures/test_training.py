import pytest

from figures.training import Change, curves, differences, histories


@pytest.mark.parametrize(
    ("updates", "kind"), [([0, 1, 3, 10, 30, 100, 300], "symlog"), ([*range(0, 400, 50)], None)]
)
def test_updates_have_a_logarithmic_axis_where_most_are_early(
    updates: list[int], kind: str | None
) -> None:
    spec = curves({"a": [(at, 1.0) for at in updates]}, "loss", "light").to_dict()
    assert spec["encoding"]["x"]["scale"].get("type") == kind


def test_lines_have_their_names_at_their_ends_apart_and_the_chosen_one_has_the_colour() -> None:
    lines = {name: [(0, 9.5), (9, 0.5)] for name in ("a", "b", "c")}
    short = dict(zip("abc", "xyz", strict=True))
    spec = histories(lines, short, "b", "loss", "light", 380, ("even", 9.0)).to_dict()
    rows = spec["datasets"][spec["layer"][-2]["data"]["name"]]
    assert {row["short"] for row in rows} == {"0.50  x", "0.50  y", "0.50  z"}
    looks = spec["layer"][0]["encoding"]
    assert 'datum.model === "b"' in str(looks["color"]) and "range" in looks["x"]["scale"]
    assert [round(row["place"], 6) for row in rows] == [0.5, 1.0, 1.5]


def test_rows_stand_below_the_question_of_their_group() -> None:
    many, long = "(A) How many?", "(B) How long?"
    rows = [
        Change(name, group, 0.1, 0.1, 0.1, "")
        for name, group in (("one", many), ("two", many), ("four", long))
    ]
    spec = differences(rows, "x", "dark").to_dict()
    order = spec["layer"][1]["encoding"]["y"]["sort"]
    assert order == [many, "one", "two", long, "four"]
