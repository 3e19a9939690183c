import numpy as np

from figures.layer_costs import cost_lines, path_picture
from transformer.measures.layer_costs import path_length


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
