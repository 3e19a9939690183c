"""Steering and sampling on the Translate page, as far as Python goes."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import messages, press, trace_of, unlinked, view_of
from tests.pages.test_translate import said
from transformer.search.sampling import Sampling
from transformer.translator import Translator

CAT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def model(random_checkpoints: Path) -> Translator:
    return Translator.load(random_checkpoints / "alpha", device="cpu")


def type_steer(app: AppTest, text: str, how: str) -> AppTest:
    app.text_input(key="steer_text").set_value(text)
    (choice,) = [each for each in app.get("button_group") if each.key == "steer_how"]
    choice.set_value(how)
    return press(app, "Decode from there")


def test_a_link_with_a_prefix_decodes_from_there_and_marks_it(
    run_app: RunApp, model: Translator
) -> None:
    ids = model.tokenize("Das Tier").ids
    prefix = ".".join(map(str, ids))
    app = run_app(sentence=CAT, prefix=prefix)
    expected = model.trace(CAT, prefix=ids)
    header, _ = messages(app, "player")[0]
    assert header["ids"] == list(expected.predicted_ids)
    assert header["nForced"] == len(ids) and not header["forced"]
    assert app.query_params["prefix"] == prefix
    assert any(f"the first {len(ids)} given" in caption.value for caption in app.main.caption)


def test_steers_can_be_taken_back_one_by_one_or_all_at_once(run_app: RunApp) -> None:
    app = run_app(sentence=CAT)
    free = messages(app, "player")[0][0]["ids"]
    type_steer(app, "Die", "Begins with")
    one = app.query_params["prefix"]
    type_steer(app, "Das Tier war", "Is exactly")
    assert app.query_params["target"] == "Das Tier war"
    assert "prefix" not in app.query_params
    header, _ = messages(app, "player")[0]
    assert header["forced"] and header["gap"] is None
    assert app.text[1].value == "Das Tier war"
    press(app, "Undo")
    assert app.query_params["prefix"] == one and "target" not in app.query_params
    press(app, "Start over")
    assert "prefix" not in app.query_params
    assert messages(app, "player")[0][0]["ids"] == free
    press(app, "Undo")
    assert app.query_params["prefix"] == one


def test_another_checkpoint_drops_the_ids_and_keeps_a_text(run_app: RunApp) -> None:
    for steering, kept in (({"prefix": "20.21"}, False), ({"target": "Das Tier"}, True)):
        app = run_app(sentence=CAT, checkpoint="alpha", **steering)
        assert set(steering) <= set(app.query_params)
        app.sidebar.selectbox(key="checkpoint_box").set_value("beta").run()
        assert (set(steering) <= set(app.query_params)) == kept


def test_bad_steering_gets_one_clear_line_and_a_way_back(run_app: RunApp) -> None:
    app = run_app(sentence=CAT, prefix="99999")
    assert "Prefix token 99999 cannot be used" in said(app) and not messages(app, "player")
    press(app, "Start over")
    before = messages(app, "player")[0]
    for text, how, message in (
        ("word " * 700, "Begins with", "at most 512 are allowed"),
        ("  ", "Is exactly", "Type at least one character"),
    ):
        type_steer(app, text, how)
        assert message in said(app) and messages(app, "player")[0] == before
    type_steer(app, "Das Tier", "Is exactly")
    assert not said(app)
    assert app.text[1].value == app.query_params["target"] == "Das Tier"


def test_sampling_is_what_the_translator_does_and_the_link_says_all_of_it(
    run_app: RunApp, model: Translator
) -> None:
    asked = {"sample": "on", "temperature": "1.5", "top_k": "0", "top_p": "0.9", "seed": "7"}
    app = run_app(sentence=CAT, **asked)
    expected = model.trace(CAT, beam_size=1, sampling=Sampling(1.5, 0, 0.9, 7))
    header, _ = messages(app, "player")[0]
    assert header["ids"] == list(expected.predicted_ids)
    assert expected.n_allowed is not None and header["drawn"] == expected.n_allowed.tolist()
    assert asked.items() <= dict(app.query_params).items()
    assert "sampled, temperature 1.5, top p 0.9, seed 7" in unlinked(
        " ".join(caption.value for caption in app.main.caption)
    )


def test_the_sidebar_changes_how_to_decode_and_back(run_app: RunApp) -> None:
    app = run_app(sentence=CAT, beam="3")
    (how,) = [each for each in app.sidebar.get("button_group") if each.key == "search_box"]
    how.set_value("Sample").run()
    assert app.query_params["sample"] == "on" and app.query_params["seed"] == "0"
    app.sidebar.slider(key="top_k_box").set_value(3).run()
    app.sidebar.slider(key="temperature_box").set_value(0.5).run()
    press(app, "New seed")
    seed = app.query_params["seed"]
    assert int(seed) > 0
    view = view_of(app)
    assert view.sampling == Sampling(0.5, 3, 1.0, int(seed)) and view.beam_size == 1
    trace = trace_of(app)
    assert trace.n_allowed is not None and trace.n_allowed.max() <= 3
    (how,) = [each for each in app.sidebar.get("button_group") if each.key == "search_box"]
    how.set_value("Beam").run()
    assert app.query_params["sample"] == "off" and app.query_params["beam"] == "3"
    assert "seed" not in app.query_params
    assert trace_of(app).allowed is None
