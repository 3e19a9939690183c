"""Every picture has an alternative text; charts are valid Vega-Lite and grow while presenting.

The app does not validate a chart again as it draws. Components' own drawings are tested in
tests/browser/test_console.py.
"""

import ast
import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import ROOT, RunApp
from ui.core import layout
from ui.core.presenter import SCALE

DRAWING = ("plotly_chart", "altair_chart", "vega_lite_chart", "pyplot", "graphviz_chart", "image")


def without_text(source: str) -> list[int]:
    """Return the lines of calls that draw a picture without a text."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in DRAWING
        and not any(word.arg == "alt" for word in call.keywords)
    ]


def test_every_picture_has_a_text() -> None:
    assert without_text("st.plotly_chart(x)\nst.image(y, alt='a')") == [1]
    for file in (*(ROOT / "pages").rglob("*.py"), *(ROOT / "ui").rglob("*.py")):
        assert not without_text(file.read_text("utf-8")), file


@pytest.mark.usefixtures("nothing_cached")
@pytest.mark.parametrize("page", ["tokens", "positions", "floor", "complexity"])
def test_charts_are_valid(run_app: RunApp, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def validated(self: Any) -> dict[str, Any]:
        drawn.append(self._chart.to_dict(validate=True))
        return dict(drawn[-1])

    monkeypatch.setattr(layout._Unchecked, "to_dict", validated)
    run_app(at=page, checkpoint="alpha", sentence="The cat sat on the mat.")
    assert drawn


def charts(app: AppTest) -> list[dict[str, Any]]:
    """Return the specifications of the page's Altair charts."""
    found = [*app.get("vega_lite_chart"), *app.get("arrow_vega_lite_chart")]
    return [json.loads(each.proto.spec) for each in found]


@pytest.mark.parametrize(
    ("page", "query"), [("tokens", {}), ("", {"tour": "training", "stop": "4", "guess": "0"})]
)
def test_charts_grow_with_the_page(run_app: RunApp, page: str, query: dict[str, str]) -> None:
    small, large = (
        charts(run_app(sentence="abc", present=present, at=page, **query))
        for present in ("off", "on")
    )
    assert small and len(small) == len(large)
    for one, other in zip(small, large, strict=True):
        axes = one["config"]["axis"], other["config"]["axis"]
        for size in ("labelFontSize", "titleFontSize"):
            assert axes[1][size] == SCALE * axes[0][size]
        assert other.get("datasets") == one.get("datasets")
