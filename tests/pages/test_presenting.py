"""While presenting, charts have larger text and are otherwise the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ui.core.presenter import SCALE

RunApp = Callable[..., AppTest]


def charts(app: AppTest) -> list[dict[str, Any]]:
    """The specifications of the page's Altair charts."""
    found = [*app.get("vega_lite_chart"), *app.get("arrow_vega_lite_chart")]
    return [json.loads(each.proto.spec) for each in found]


def sizes(chart: dict[str, Any]) -> list[float]:
    axis = chart["config"]["axis"]
    return [axis["labelFontSize"], axis["titleFontSize"]]


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("tokens", {}),
        ("attention", {"display": "matrix"}),
        ("tours", {"tour": "training", "stop": "4", "guess": "0"}),
    ],
)
def test_charts_grow_with_the_page(run_app: RunApp, page: str, query: dict[str, str]) -> None:
    drawn = {}
    for present in ("off", "on"):
        at = "" if page == "tours" else page  # a stop's link leads there by itself
        app = run_app(sentence="abc", present=present, at=at, **query)
        drawn[present] = charts(app)
    assert drawn["off"]
    assert len(drawn["on"]) == len(drawn["off"])
    for small, large in zip(drawn["off"], drawn["on"], strict=True):
        assert sizes(large) == [SCALE * size for size in sizes(small)]
        assert large.get("datasets") == small.get("datasets")
