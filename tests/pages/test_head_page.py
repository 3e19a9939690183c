from typing import Any

import numpy as np
import pytest

from tests.pages.conftest import CAT, RunApp
from transformer.trace.records import HeadStages
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from ui.components.stages import Chosen
from ui.head import views


@pytest.fixture
def drawn(recorded: Any) -> list[dict[str, Any]]:
    return recorded(views, "stages_component")


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_a_link_reopens_a_query(open_page: RunApp, drawn: list[dict[str, Any]], kind: str) -> None:
    query = {"kind": kind, "layer": "2", "head": "3", "query": "3", "key": "1", "scaling": "1"}
    app = open_page(**query)
    shown = drawn[-1]
    stages: HeadStages = shown["stages"]
    assert (stages.kind, stages.layer, stages.head, stages.query) == (kind, 1, 2, 2)
    assert shown["chosen"] == Chosen(0, 1.0)
    trace = Translator.load(app.session_state["headlight_view"].path, "cpu").trace(CAT)
    np.testing.assert_allclose(
        stages.scaled.weights, trace.attention(stages.kind)[1, 2, 2], atol=1e-5
    )
    assert shown["difference"] < 1e-5
    assert [app.selectbox(key=f"head_{name}_box").value for name in ("layer", "head")] == [1, 2]


def test_another_kind_has_other_tokens(open_page: RunApp, drawn: list[dict[str, Any]]) -> None:
    app = open_page(layer="1", head="1", query="2", key="2")
    app.segmented_control(key="kind_widget").set_value("encoder_self").run()
    assert "query" not in app.query_params and "key" not in app.query_params
    assert drawn[-1]["stages"].kind == "encoder_self"


def test_what_does_not_exist_gives_way(open_page: RunApp, drawn: list[dict[str, Any]]) -> None:
    for query in (
        {"layer": "99", "head": "99", "query": "999", "key": "999"},
        {"layer": "mean", "head": "mean", "query": "0", "key": "<b>", "scaling": "maybe"},
    ):
        open_page(**query)
        stages: HeadStages = drawn[-1]["stages"]
        assert stages.layer < 3 and stages.head < 3
        strongest = int(stages.scaled.weights.argmax())
        assert drawn[-1]["chosen"] == Chosen(strongest)


def test_the_player_s_step_is_the_query(open_page: RunApp, drawn: list[dict[str, Any]]) -> None:
    open_page(step="2")
    assert drawn[-1]["stages"].query == 1
