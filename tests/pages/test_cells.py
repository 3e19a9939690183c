"""One setting chooses what every map shows."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

import headlight
from tests.messages import unpack
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import messages, trace_of
from transformer.attribution.cells import measured
from transformer.attribution.edges import edges, effects, row_shares
from transformer.measures.heads import key_classes
from transformer.translator import Translator
from transformer.types import InputError
from ui.components.grid import Cell
from ui.frame.sinks import sinks_of


def captions(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.main.caption)


def lens_of(app: AppTest) -> tuple[dict[str, Any], np.ndarray]:
    sent = [unpack(part.proto.bytes) for part in app.main.get("bidi_component")]
    header, body = next(one for one in sent if "key_title" in one[0] and "causal" in one[0])
    shape = len(header["query_tokens"]), len(header["key_tokens"])
    return header, np.frombuffer(body, "<f4").reshape(shape)


def test_the_player_follows_the_link_and_the_control_writes_it(
    run_app: RunApp, tiny_translator: Translator
) -> None:
    app = run_app(checkpoint="alpha", sentence=CAT, cell="norm", layer="1", kind="cross")
    header, body = messages(app, "player")[0]
    made = measured(tiny_translator, trace_of(app), "norm")
    assert made.cells is not None and header["noun"] == "share of the norm" and header["wide"] == 1
    wide = made.cells.wide["cross"]
    sent = np.frombuffer(body, "<u2")[: wide.size].reshape(wide.shape) / 65535
    np.testing.assert_allclose(sent, wide, atol=1e-5)
    assert "not the mean of the heads" in captions(app)
    app.radio(key="cell_widget").set_value("effect").run()
    header, body = messages(app, "player")[0]
    assert app.query_params["cell"] == "effect" and header["limit"] > 0
    shown = np.frombuffer(body, "<u2")[: wide.size].reshape(wide.shape).astype("f8")
    shown = (shown - 32767) / 32767 * header["limit"]
    expected = effects(tiny_translator.model, trace_of(app), "cross", 0)
    np.testing.assert_allclose(shown[0, -1], expected, atol=header["limit"] / 10_000)
    app.radio(key="cell_widget").set_value("weight").run()
    assert app.query_params["cell"] == "weight" and messages(app, "player")[0][0]["wide"] == 0


@pytest.mark.parametrize("cell", [(0, 1), (1, None), (None, None)])
def test_a_map_shows_the_effect_of_its_place_with_the_check(
    run_app: RunApp, tiny_translator: Translator, cell: Cell
) -> None:
    layer, head = ("mean" if at is None else str(at + 1) for at in cell)
    for display in ("matrix", "grid"):
        app = run_app(
            at="attention", checkpoint="alpha", sentence=CAT, cell="effect", kind="cross",
            display=display, layer=layer, head=head, check="on",
        )  # fmt: skip
        header, values = lens_of(app)
        expected = effects(tiny_translator.model, tiny_translator.trace(CAT), "cross", *cell)
        np.testing.assert_allclose(values, expected, atol=1e-4)
        assert header["ends"] == ["less likely", "more likely"]
        assert "| this sentence |\n|---|---|\n| [weight]" in captions(app)
        assert ("Below are attention weights" in captions(app)) == (display == "matrix")


def test_what_has_no_effect_says_why_and_shows_weights(run_app: RunApp) -> None:
    given = {"checkpoint": "alpha", "sentence": CAT, "cell": "effect"}
    app = run_app(at="attention", kind="encoder_self", display="matrix", **given)
    assert "belongs to no step" in captions(app) and lens_of(app)[0]["noun"] == ""
    app = run_app(at="attention", kind="cross", display="heads", heads="1.1", **given)
    assert "one map at a time" in captions(app) and not app.exception


def test_words_only_is_labelled_beside_every_measure(run_app: RunApp) -> None:
    app = run_app(
        at="attention", checkpoint="alpha", sentence=CAT, display="matrix", kind="cross",
        words_only="on", layer="1", head="2",
    )  # fmt: skip
    header, values = lens_of(app)
    assert header["noun"] == "attention weight, words only" and "**Words only**" in captions(app)
    assert not values[:, -1].any()
    np.testing.assert_allclose(values.sum(-1), 1, atol=1e-4)
    assert app.query_params["words_only"] == "on"
    sent = [unpack(part.proto.bytes) for part in app.main.get("bidi_component")]
    raw = next(body for one, body in sent if "causal" in one and not one["noun"])
    weights = trace_of(app).cross[0, 1]
    np.testing.assert_allclose(np.frombuffer(raw, "<f4").reshape(weights.shape), weights, atol=1e-6)


@pytest.mark.parametrize("at", ["translate", "attention", "compare"])
@pytest.mark.parametrize("beside", ["matrix", "lines"])
def test_bars_stand_below_every_map(run_app: RunApp, at: str, beside: str) -> None:
    display = "heads" if beside == "lines" else "matrix"
    app = run_app(at=at, checkpoint="alpha", sentence=CAT, kind="cross", words_only="on",
                  topic="maps", other="beta", beside=beside, display=display)  # fmt: skip
    n = 1 + (at == "compare")
    assert captions(app).count("The same map with every key") == n and not app.exception
    assert " ".join(part.proto.body for part in app.main.get("html")).count("norm by class") == n


def test_the_bars_below_a_map_and_the_answer_are_those_of_its_head(
    run_app: RunApp, tiny_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tiny_translator.trace(CAT)
    monkeypatch.setattr("ui.frame.sinks.MUCH", 0)
    for layer, head in ((0, 1), (1, 2)):
        app = run_app(
            at="attention", checkpoint="alpha", sentence=CAT, display="matrix", kind="cross",
            layer=str(layer + 1), head=str(head + 1),
        )  # fmt: skip
        bars = " ".join(part.proto.body for part in app.main.get("html"))
        end = trace.cross[layer, head, :, -1].mean()
        assert f"&lt;/s&gt; {end:.2f}" in bars and "norm by class of key" in bars
        # a value's length times its weight is the norm of the edge
        norms = edges(tiny_translator.model, trace, "norm").heads["cross"][layer, head]
        lengths = norms[0] / trace.cross[layer, head, 0]
        classes = np.array(key_classes(trace.src_tokens, trace.src_special))
        sinks = np.where(classes == "word", 0, trace.cross[layer, head].mean(0))
        ratio = lengths[sinks.argmax()] / lengths[classes == "word"].mean()
        assert f"{ratio:.2f} times as long as a word's" in captions(app)
        assert ("Not because" in captions(app)) == (ratio > 0.75)
        monkeypatch.setattr("ui.frame.sinks.MUCH", 1)
        assert "get so much" not in captions(app.run())
        monkeypatch.setattr("ui.frame.sinks.MUCH", 0)


def test_a_head_without_values_has_no_lengths_to_compare(tiny_translator: Translator) -> None:
    translator = copy.deepcopy(tiny_translator)
    attention: Any = translator.model.decoder[0].cross_attention
    with torch.no_grad():
        attention.w_o.weight[:, : attention.d_v] = 0  # the first head adds nothing
    trace = translator.trace(CAT)
    lengths = [sinks_of(("cross", 0, head)).make(translator, trace).length for head in (0, 1)]
    assert lengths[0] is None and lengths[1] is not None


def test_a_program_draws_a_measured_trace(tiny_translator: Translator) -> None:
    trace = tiny_translator.trace(CAT)
    shares = measured(tiny_translator, trace, "zeroing")
    assert b"share of the change" in headlight.show(shares).html
    shown = headlight.show(trace, cell="zeroing", model=tiny_translator)
    assert shown.html == headlight.show(shares).html
    with pytest.raises(ValueError, match="needs a trace and its model"):
        headlight.show(trace, cell="norm")
    effect = measured(tiny_translator, trace, "effect", places=[("cross", 0, None)])
    assert b"effect in nats" in headlight.show(effect).html
    figure = headlight.attention(effect, layer=0)
    np.testing.assert_array_equal(
        figure.arrays["weights"], effects(tiny_translator.model, trace, "cross", 0)
    )
    with pytest.raises(InputError, match="one map at a time"):
        headlight.attention(effect, display="grid")


def test_a_second_measure_stands_beside_the_first(
    run_app: RunApp, tiny_translator: Translator
) -> None:
    given = {"at": "attention", "checkpoint": "alpha", "sentence": CAT, "display": "against"}
    app = run_app(kind="cross", layer="1", head="1", against="norm", **given)
    sent = [unpack(part.proto.bytes) for part in app.main.get("bidi_component")]
    first, second = (one for one in sent if "key_title" in one[0])
    assert [header["noun"] for header, _ in (first, second)] == ["", "share of the norm"]
    assert first[0]["ringed"] == second[0]["ringed"] and len(first[0]["ringed"]) == 3
    norms = edges(tiny_translator.model, tiny_translator.trace(CAT), "norm").heads["cross"][0, 0]
    shares = np.frombuffer(second[1], "<f4").reshape(norms.shape)
    np.testing.assert_allclose(shares, row_shares(norms), atol=1e-6)
    for part in ("Every row adds up to 1.", "How well each measure predicts"):
        assert part in captions(app)
    app.selectbox(key="against_widget").set_value("contribution").run()
    assert app.query_params["against"] == "contribution" and not app.exception
    app = run_app(kind="encoder_self", **given)
    assert "belongs to no step" in captions(app)


def test_the_view_opens_on_all_heads_by_weight_and_effect(run_app: RunApp) -> None:
    app = run_app(at="attention", checkpoint="alpha", sentence=CAT, display="against")
    boxes = [box.value for box in app.main.selectbox[:2]]
    assert boxes == [0, 0]
    sent = [unpack(part.proto.bytes)[0] for part in app.main.get("bidi_component")]
    assert [one["noun"] for one in sent if "key_title" in one] == ["", "effect in nats"]
