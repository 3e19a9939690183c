import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.forks import ROOT
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import press, written
from transformer.models.one_stack.model import MASK
from transformer.models.one_stack.tracer import StackModel
from ui.core.examples import examples_for
from ui.family.exhibits import NEXT, next_tokens
from ui.family.views import aligner_of

SHIPPED = ROOT / "checkpoints"


@pytest.fixture(scope="session")
def root(family: Path) -> Path:
    return family


def charts(app: AppTest) -> list[Any]:
    return list(app.main.get("vega_lite_chart"))


def test_beside_a_translator_the_page_shows_a_member(open_page: RunApp, root: Path) -> None:
    app = open_page(checkpoint="two")
    assert len(charts(app)) == 2
    assert app.button_group(key="member_widget").value == "writer"
    assert any(each.label == "Draw one" for each in app.button)
    app.button_group(key="member_widget").set_value("reader").run()
    assert app.query_params["member"] == "reader"
    assert app.query_params["checkpoint"] == "two"
    assert any(each.label == "Hide a word" for each in app.button)


def test_hidden_words_and_their_candidates(open_page: RunApp, root: Path) -> None:
    sentence = f"The {MASK} sat on the mat."
    app = open_page(checkpoint="reader", sentence=sentence)
    model = StackModel.load(root / "reader", "cpu")
    guesses = model.guesses(model.trace(sentence))
    assert len(guesses) == 1 and len(charts(app)) == 1
    best = guesses[0].tokens[0].replace("\u2581", "_")
    assert any(best in str(each.proto) for each in charts(app))


def test_it_goes_on_and_draws(open_page: RunApp, root: Path) -> None:
    app = open_page(checkpoint="writer", more="5")
    longer = StackModel.load(root / "writer", "cpu").trace(CAT.rstrip("."), new_tokens=5)
    assert len(app.selectbox(key="family_place_box").options) == len(longer.predicted_ids)
    assert not any("</s>" in each.value for each in app.markdown)
    assert any("The cat sat on the mat" in text for text in written(app))
    press(app, "Draw one")
    assert app.query_params["seed"] == "1"


def test_one_stack_beside_two(open_page: RunApp, root: Path) -> None:
    app = open_page(part="stacks", checkpoint="two")
    assert app.selectbox(key="family_layer_one_box").value == 2
    assert app.selectbox(key="family_head_one_box").value == 2
    assert any("aligns words: its links agree by 70.0%" in each.value for each in app.caption)
    app.selectbox(key="family_layer_one_box").set_value(0).run()
    assert app.query_params["layer_one"] == "1"


def test_a_record_without_the_guess_claims_nothing(root: Path) -> None:
    metrics = json.loads((root / "one" / "metrics.json").read_text())
    assert aligner_of(metrics)
    del metrics["alignment"]["diagonal"]
    assert aligner_of(metrics) is None


def test_what_changed_is_told_for_each(open_page: RunApp, root: Path) -> None:
    app = open_page(part="changes", checkpoint="two")
    assert len(app.table) == 3
    said = " ".join(str(each.value) for each in app.table)
    assert "15%" in said and "GELU" in said


def test_a_caption_is_offered_where_the_sentence_is_none(open_page: RunApp) -> None:
    app = open_page(root=SHIPPED, part="stacks", checkpoint="everyday-en-de")
    press(app, "Try a caption")
    caption = app.text_area[0].value
    assert caption != CAT
    assert not any(each.label == "Try a caption" for each in app.button)
    # An example of another model is replaced here, and stays the visitor's sentence.
    example = examples_for("everyday-en-de").items[3].sentence
    app = open_page(root=SHIPPED, part="stacks", sentence=example, checkpoint="everyday-en-de")
    assert caption in written(app)
    assert app.text_area[0].value == example


def test_a_text_as_it_stands_has_no_bar_for_a_token_that_nobody_wrote(root: Path) -> None:
    model = StackModel.load(root / "writer", "cpu")
    trace = model.trace(CAT)
    *written, following = next_tokens(trace, 0)
    assert [each.token for each in written] == [*trace.tgt_tokens[1:]]
    assert (following.token, following.log_prob) == (NEXT, None)
    longer = next_tokens(model.trace("The cat", new_tokens=2), 2)
    assert all(each.log_prob is not None for each in longer)
