import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figures.labels import signed
from tests.pages.conftest import CAT, RunApp
from transformer.attribution.cells import reasons
from transformer.trace.records import HeadStages
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, AttentionKind
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
        assert drawn[-1]["chosen"] == Chosen(int(stages.scaled.weights.argmax()))


def test_the_player_s_step_is_the_query(open_page: RunApp, drawn: list[dict[str, Any]]) -> None:
    open_page(step="2")
    assert drawn[-1]["stages"].query == 1


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_a_score_is_told_part_by_part(open_page: RunApp, kind: AttentionKind) -> None:
    app = open_page(kind=kind, layer="2", head="3", query="3", key="2")
    translator = Translator.load(app.session_state["headlight_view"].path, "cpu")
    trace = translator.trace(CAT)
    split = reasons(translator.model, trace, kind, 1, 2, 2, 1)
    text = "\n".join(element.value for element in app.main.markdown)
    assert f"**{signed(split.score)}**" in text and "Why this head looks here" in text
    shares = [
        float(share.replace("−", "-")) for share in re.findall(r"^- \**([−.\d]+)", text, re.M)
    ]
    assert sum(shares[:6]) == pytest.approx(split.score, abs=0.04)
    assert text.count(": the score changes by ") == 3
    # An earlier head is told by the token that it reads.
    assert re.search(r"layer 1, head \d wrote into the \w+ what it reads from `", text)


def test_a_masked_key_is_said_to_be_masked(open_page: RunApp, monkeypatch: Any) -> None:
    monkeypatch.setattr("transformer.attribution.cells.score_without", lambda *_: 1e3)
    app = open_page(kind="decoder_self", layer="2", head="1", query="2", key="4")
    said = "".join(element.value for element in app.main.markdown)
    assert "masked, so it gets no weight" in said
    # A part is no reason for a score that changes the other way without it.
    assert " because **" not in said and "later parts change too and make up for it" in said


def test_a_model_of_one_stack_says_why_it_has_no_parts(run_app: RunApp, family: Path) -> None:
    app = run_app(at="head", checkpoint="writer", root=family, sentence=CAT)
    assert any("this model has one stack" in element.value for element in app.main.caption)
    assert "why it looks there" not in "".join(e.value for e in app.main.markdown)
