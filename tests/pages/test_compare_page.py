"""The Compare page: both sides are right, and it says what cannot be compared, and why."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from streamlit.testing.v1 import AppTest

from tests.pages.links import messages_in as said
from tests.tiny_models import random_model
from tests.views import make_view
from transformer.arrays.trace_file import save_arrays
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.measures.agreement import head_agreements
from transformer.measures.compare import assign, divergence
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.attention import views
from ui.compare.matching import work_of
from ui.components.packing import Component
from ui.frame.twice import Setup

RunApp = Callable[..., AppTest]
SENTENCE = "The cat sat on the mat."
EXAMPLE = "The animal didn't cross the street because it was too tired."

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def root(
    random_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer
) -> Path:
    """Two equal models, one of other depths and heads, one whose weights are no numbers."""
    found = tmp_path_factory.mktemp("compare")
    for name in ("alpha", "beta", "nan"):
        shutil.copytree(random_checkpoints / "alpha", found / name)
    shutil.copytree(random_checkpoints / "cut", found / "cut")
    weights = load_file(found / "nan" / "model.safetensors")
    for values in weights.values():
        values.fill_(float("nan"))
    save_file(weights, found / "nan" / "model.safetensors")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=20, n_heads=5, d_ff=24, n_encoder_layers=1,
        n_decoder_layers=2, max_positions=600,
    )  # fmt: skip
    save_checkpoint(found / "other", random_model(config), tiny_tokenizer)
    return found


@pytest.fixture
def open_page(run_app: RunApp, root: Path) -> Callable[..., AppTest]:
    def opened(**query: str) -> AppTest:
        start = {"checkpoint": "alpha", "sentence": SENTENCE}
        return run_app(root, at="compare", **{**start, **query})

    return opened


def test_it_opens_with_another_checkpoint_beside_the_one_on_the_left(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page(scored="on")
    assert app.selectbox(key="other_widget").value == "beta"
    trace = Translator.load(root / "alpha", "cpu").trace(SENTENCE)
    assert [each.value for each in app.main.text].count(trace.text or "(empty)") == 2
    assert f"score {trace.score:.3f}".replace("-", "−") in said(app)
    assert "Both write the same words, with the same probability" in said(app)


def test_it_opens_on_a_sentence_that_both_models_know(
    run_app: RunApp, random_checkpoints: Path, tmp_path: Path
) -> None:
    for name in ("everyday-en-de", "multi30k-en-de"):
        shutil.copytree(random_checkpoints / "alpha", tmp_path / name)
    app = run_app(tmp_path, at="compare", beam="1")
    assert app.selectbox(key="other_widget").value == "multi30k-en-de"
    assert app.text_area(key="sentence_box").value == "A dog runs through the snow."
    # What the visitor asks for stays, also if it is the sentence that the app opens with.
    app.selectbox(key="example_box").set_value(EXAMPLE).run()
    assert app.text_area(key="sentence_box").value == EXAMPLE
    app = run_app(tmp_path, at="compare", beam="1", sentence=EXAMPLE).run()
    assert app.text_area(key="sentence_box").value == EXAMPLE


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
@pytest.mark.parametrize("query", [{"other": "beta"}, {"other": "alpha"}, {"pairing": "sentences"}])
def test_the_same_on_both_sides_differs_by_exactly_nothing(
    open_page: Callable[..., AppTest], kind: str, query: dict[str, str]
) -> None:
    # This sentence is no example, so both sides have it until it is changed.
    app = open_page(beside="difference", kind=kind, **query)
    assert "Every weight is the same on both sides" in said(app)


def test_an_example_stands_beside_its_counterpart_and_the_changed_word_is_named(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(
        sentence=EXAMPLE, pairing="sentences", kind="encoder_self", units="words",
        beside="difference",
    )  # fmt: skip
    assert app.text_input(key="second_widget").value == EXAMPLE.replace("tired", "wide")
    assert "`tired.` and `wide.` stand in the same place" in said(app)
    assert "bits" in said(app)


def test_a_second_sentence_is_typed_and_belongs_to_the_first(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(pairing="sentences", kind="encoder_self", beside="difference")
    app.text_input(key="second_widget").set_value("A dog runs across the grass, a dog.").run()
    assert app.query_params["second"] == "A dog runs across the grass, a dog."
    assert re.search(r"The sources have \d+ and \d+ words", said(app))
    app.text_area(key="sentence_box").set_value("A dog.")
    next(each for each in app.sidebar.button if each.label == "Translate").click()
    app.run()
    assert not app.exception
    assert app.text_input(key="second_widget").value == "A dog."
    assert "second" not in app.query_params


def test_a_blank_second_sentence_asks_for_one(open_page: Callable[..., AppTest]) -> None:
    app = open_page(pairing="sentences")
    app.text_input(key="second_widget").set_value("").run()
    assert not app.exception
    assert "Type a second sentence" in said(app)
    again = open_page(**dict(app.query_params))
    assert "Type a second sentence" in said(again)
    again.text_input(key="second_widget").set_value("A dog.").run()
    assert "Type a second sentence" not in said(again)


def test_unequal_depths_and_heads_fit_side_by_side(open_page: Callable[..., AppTest]) -> None:
    app = open_page(other="other", layer="3", head="2", kind="cross")
    assert len(app.selectbox(key="layer_widget").options) == 1 + 3
    assert len(app.selectbox(key="other_layer_widget").options) == 2 + 2
    assert len(app.selectbox(key="other_head_widget").options) == 2 + 5
    app = open_page(other="other", layer="3", head="2", kind="encoder_self", beside="difference")
    # Two layers against one: neither has a third, so both show the mean.
    assert "A − B: Head 2, mean over layers" in said(app)
    for display in ("grid", "lines"):
        open_page(other="other", beside=display, heads="3.1-2.3")


def test_the_same_query_stands_out_in_the_lines_of_both_sides(
    open_page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Component[tuple[object, object]]] = []
    monkeypatch.setattr(views, "show", lambda component, **_: drawn.append(component))
    open_page(other="other", beside="lines", kind="encoder_self", heads="1.1-1.2")
    one, two = drawn
    assert one.header["query_tokens"] == two.header["query_tokens"]
    assert one.header["lead"] == two.header["lead"] and one.body != two.body


def test_a_translation_is_followed_so_that_rows_line_up(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page(other="other", kind="cross", beside="difference")
    assert "have no partner" in said(app)
    assert "Switch on" in said(app)
    app.toggle(key="follow_widget").set_value(True).run()
    assert not app.exception
    assert app.query_params["follow"] == "on"
    assert "B reads A’s words" in said(app)
    left = Translator.load(root / "alpha", "cpu").trace(SENTENCE)
    right = Translator.load(root / "other", "cpu").trace(SENTENCE, target=left.text)
    means = [each.cross.mean(axis=(0, 1), dtype="f8").astype("f4") for each in (left, right)]
    assert f"**{divergence(*means).mean():.3f} bits**" in said(app)


def test_heads_are_matched_and_a_pair_is_chosen(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page(other="other", topic="heads", kind="encoder_self")
    # Six heads on the left, five on the right.
    assert "**5 pairs of heads" in said(app)
    assert "of 12 example sentences" in said(app)
    box = app.selectbox(key="compare_pair_box")
    assert len(box.options) == 5
    box.select_index(4).run()
    assert not app.exception
    pair = re.search(
        r"A (\d)\.(\d) and B (\d)\.(\d)", app.selectbox(key="compare_pair_box").options[4]
    )
    assert pair is not None
    wanted = dict(zip(("layer", "head", "other_layer", "other_head"), pair.groups(), strict=True))
    assert wanted.items() <= app.query_params.items()
    app.segmented_control(key="topic_widget").set_value("maps").run()
    assert app.selectbox(key="other_head_widget").value == wanted["other_head"]


def test_a_model_is_matched_to_itself_head_by_head(open_page: Callable[..., AppTest]) -> None:
    app = open_page(topic="heads", kind="cross")
    assert "1.00 alike on average**; heads in the same place: 1.00" in said(app)
    for option in app.selectbox(key="compare_pair_box").options:
        one, other = re.findall(r"\d\.\d", option)[:2]
        assert one == other


def test_numbers_are_those_of_both_models(open_page: Callable[..., AppTest], root: Path) -> None:
    app = open_page(other="other", topic="numbers")
    left, right = (Translator.load(root / name, "cpu") for name in ("alpha", "other"))
    own, there = left.trace(SENTENCE), right.trace(SENTENCE)
    log_p = app.main.table[0].value
    followed = right.trace(SENTENCE, target=own.text)
    for name, trace in (("by A", own), ("by B", followed)):
        shown = log_p[name].iloc[0].split(" ")[0].replace("−", "-")
        assert float(shown) == pytest.approx(float(trace.log_probs.sum()), abs=0.006)
    back = log_p["by B"].iloc[1].split(" ")[0].replace("−", "-")
    assert float(back) == pytest.approx(float(there.log_probs.sum()), abs=0.006)
    agreement = app.main.table[1].value
    alike = head_agreements(own, followed)["encoder_self"].values
    matched = sum(alike[pair] for pair in assign(alike)) / min(alike.shape)
    assert float(agreement["heads, matched"].iloc[0]) == pytest.approx(matched, abs=0.0006)


@pytest.mark.parametrize(("name", "why"), [("cut", "cannot be used"), ("gone", "is not here")])
def test_a_checkpoint_that_is_broken_or_gone_is_replaced_and_said(
    open_page: Callable[..., AppTest], name: str, why: str
) -> None:
    app = open_page(other=name)
    assert f"`{name}` {why}; B is `beta`" in said(app)
    assert name not in app.selectbox(key="other_widget").options


def test_a_checkpoint_that_breaks_while_it_is_loaded_leaves_the_page_usable(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(other="nan")
    assert "Choose another checkpoint for B" in said(app)
    app.selectbox(key="other_widget").set_value("beta").run()
    assert not app.exception
    assert "Both write the same words" in said(app)


def test_stopped_matching_says_so_and_goes_on(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    left, right = (make_view(root / name, SENTENCE) for name in ("alpha", "other"))
    app = open_page(other="other")
    app.session_state["headlight_stopped"] = work_of(Setup("models", left, right, ()))
    app.segmented_control(key="topic_widget").set_value("heads").run()
    assert "Stopped" in said(app)
    app.button(key="compare_resume").click().run()
    assert not app.exception
    assert "pairs of heads" in said(app)


def test_a_file_of_arrays_stands_on_either_side(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    trace = Translator.load(root / "other", "cpu").trace(SENTENCE)
    bare = replace(trace, log_probs=np.zeros(0, np.float32))
    save_arrays(bare, root / "kept.npz")
    try:
        app = open_page(other="kept.npz", kind="encoder_self", topic="heads")
        assert "of 1 example sentence" in said(app) or "1 sentence" in said(app)
        for topic in ("maps", "numbers"):
            app.segmented_control(key="topic_widget").set_value(topic).run()
            assert not app.exception
        app = open_page(checkpoint="kept.npz", other="alpha", beside="difference")
        assert app.segmented_control(key="pairing_widget").options == ["Two checkpoints"]
    finally:
        (root / "kept.npz").unlink()


def test_matching_needs_two_models_and_says_so(open_page: Callable[..., AppTest]) -> None:
    app = open_page(pairing="sentences", topic="heads")
    assert "Matching is between two models" in said(app)


def test_token_text_is_text(open_page: Callable[..., AppTest]) -> None:
    hostile = "<script>alert(1)</script> **bold** :red[x] שלום " + "x" * 200
    for display in ("matrix", "difference", "grid", "lines"):
        open_page(sentence=hostile, other="other", beside=display)
    open_page(sentence=hostile, pairing="sentences", topic="numbers")
