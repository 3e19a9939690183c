"""The Attention page: what it says is what the model did, and the link holds the view."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from transformer.records import ATTENTION_KINDS, Trace
from transformer.translator import Translator

RunApp = Callable[..., AppTest]
SENTENCE = "The cat sat on the mat."


@pytest.fixture(scope="module")
def trace(random_checkpoints: Path) -> Trace:
    """What the page has to show: the same sentence, searched the same way."""
    return Translator.load(random_checkpoints / "alpha", "cpu").trace(SENTENCE)


def open_page(run_app: RunApp, **query: str) -> AppTest:
    app = run_app(checkpoint="alpha", **{"sentence": SENTENCE, **query})
    app.switch_page("pages/attention_page.py").run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    return "\n".join([*(m.value for m in app.markdown), *(c.value for c in app.caption)])


def name(app: AppTest) -> str:
    """The heading of the map under the lens."""
    return next(m.value for m in app.markdown if re.match(r"\*\*(Layer|Head|Mean)", m.value))


def test_it_opens_on_cross_attention_of_an_example(run_app: RunApp) -> None:
    app = run_app()
    app.switch_page("pages/attention_page.py").run()
    assert not app.exception
    text = said(app)
    assert "Every token of the translation looks at the whole source" in text
    assert "not an explanation" in text
    assert "Click one to read it large" in text


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
@pytest.mark.parametrize("layer", ["mean", "1"])
@pytest.mark.parametrize("head", ["mean", "3"])
def test_a_link_reopens_any_view_and_its_hidden_mass_is_true(
    run_app: RunApp, trace: Trace, kind: str, layer: str, head: str
) -> None:
    app = open_page(run_app, kind=kind, layer=layer, head=head, dim="on")
    maps = trace.attention(kind)  # type: ignore[arg-type]
    chosen = maps if layer == "mean" else maps[:1]
    chosen = chosen if head == "mean" else chosen[:, 2:3]
    # The source ends in </s>, the decoder's input starts with <s>.
    column, token = (0, "<s>") if kind == "decoder_self" else (-1, "</s>")
    hidden = chosen.mean(axis=(0, 1))[:, column].mean()
    assert f"dimming `{token}` hides {hidden:.1%} of the attention" in name(app)
    expected = {"kind": kind, "layer": layer, "head": head, "dim": "on"}
    assert expected.items() <= app.query_params.items()


def test_every_map_has_its_own_name(run_app: RunApp) -> None:
    for layer, head, expected in [
        ("2", "1", "**Layer 2, head 1**"),
        ("2", "mean", "**Layer 2, mean over heads**"),
        ("mean", "3", "**Head 3, mean over layers**"),
        ("mean", "mean", "**Mean over all layers and heads**"),
    ]:
        assert name(open_page(run_app, layer=layer, head=head)) == expected


def test_depths_differ_and_a_missing_layer_falls_back_to_the_mean(run_app: RunApp) -> None:
    # Two encoder layers, three decoder layers.
    assert "Layer 3, head 1" in name(open_page(run_app, kind="cross", layer="3", head="1"))
    app = open_page(run_app, kind="encoder_self", layer="3", head="1")
    assert "Head 1, mean over layers" in name(app)


def test_dimming_is_a_switch_that_the_link_holds_on_and_off(run_app: RunApp) -> None:
    app = open_page(run_app, dim="off")
    assert "hides" not in name(app)
    app.toggle(key="dim_widget").set_value(True).run()
    assert "hides" in name(app)
    assert app.query_params["dim"] == "on"
    app.toggle(key="dim_widget").set_value(False).run()
    assert "hides" not in name(app)
    assert app.query_params["dim"] == "off"


def test_choosing_another_kind_tells_its_story_and_its_mask(run_app: RunApp) -> None:
    app = open_page(run_app)
    app.segmented_control(key="kind_widget").set_value("decoder_self").run()
    assert "Later ones are masked" in said(app)
    assert app.query_params["kind"] == "decoder_self"
    app.segmented_control(key="kind_widget").set_value("encoder_self").run()
    assert "Nothing is masked: the whole sentence" in said(app)


@pytest.mark.parametrize("value", ["nonsense", "", "-1", "0", "<script>", "1e9"])
def test_nonsense_in_the_link_is_left_out(run_app: RunApp, value: str) -> None:
    app = open_page(run_app, kind=value, layer=value, head=value, dim=value)
    assert name(app) == "**Mean over all layers and heads**"
    assert "Every token of the translation" in said(app)


@pytest.mark.parametrize(
    "sentence",
    [
        "<script>alert(1)</script>",
        "$x$ **b** :red[c]",
        "😀 🏳️‍🌈",
        "שלום עולם",
        "a\x00\x1b\u202eb",
        "x",
    ],
)
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_odd_sentences_are_only_text(run_app: RunApp, sentence: str, kind: str) -> None:
    app = open_page(run_app, sentence=sentence, kind=kind, dim="on")
    assert name(app).startswith("**Mean over all layers and heads**")


def test_a_blank_sentence_asks_for_one(run_app: RunApp) -> None:
    app = open_page(run_app, sentence="   ")
    assert "Nothing to translate yet" in app.info[0].value


def test_a_long_sentence_moves_to_a_chart_that_zooms(run_app: RunApp) -> None:
    app = open_page(run_app, sentence="the cat sat on the mat " * 8, kind="encoder_self")
    assert len(app.get("plotly_chart")) == 1
    short = open_page(run_app, kind="encoder_self")
    assert not short.get("plotly_chart")


def test_too_long_is_said_in_one_line(run_app: RunApp) -> None:
    app = open_page(run_app, sentence="cat " * 2_400)
    assert len(app.warning) == 1
    assert "at most 512" in app.warning[0].value
