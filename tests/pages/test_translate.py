"""The Translate page and its opening; player and animation are tested in a browser."""

from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import ask, messages, trace_of, unlinked
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.examples import examples_for
from ui.work import results
from ui.work.lru import Lru

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "checkpoints"


def said(app: AppTest) -> str:
    """Return every message on the page, without Markdown's escapes."""
    messages = (*app.info, *app.warning, *app.error)
    return "\n".join(message.value for message in messages).replace("\\", "")


def translation(app: AppTest) -> str:
    return str(app.text[1].value)


def test_the_page_opens_on_an_example_and_translates_as_the_translator_does(
    run_app: RunApp, random_checkpoints: Path
) -> None:
    app = run_app(beam="3", alpha="1")
    trace = trace_of(app)
    assert examples_for("alpha").items[0].sentence in [text.value for text in app.text]
    header, body = messages(app, "player")[0]
    assert header["predicted"] == list(trace.predicted_tokens)
    weights = np.frombuffer(body, "<u2")[: trace.cross.size].reshape(header["shape"]) / 65535
    np.testing.assert_allclose(weights, trace.cross, atol=1e-5)
    assert header["gap"] is not None and float(header["gap"]) < 1e-5
    ask(app, "The cat sat on the mat.")
    expected = Translator.load(random_checkpoints / "alpha", device="cpu").trace(
        "The cat sat on the mat.", beam_size=3, alpha=1.0
    )
    assert messages(app, "player")[0][0]["predicted"] == list(expected.predicted_tokens)
    score = f"score {expected.score:.2f} nats (beam 3, α 1)".replace("-", "−")
    assert any(score in unlinked(caption.value) for caption in app.main.caption)


def test_a_search_too_large_to_keep_is_said(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = run_app(sentence="abc")
    assert "left out" not in app.main.caption[-1].value
    monkeypatch.setattr("ui.work.results.CACHE", Lru(1000))
    app = run_app(sentence="abc")
    assert "the Beam search page cannot show its tree" in app.main.caption[-1].value
    header, _ = messages(app, "player")[0]
    assert header["origin"] == "Recorded live"
    assert header["gap"] is not None  # measured before it was left out


def test_a_link_opens_the_player_at_its_place(run_app: RunApp) -> None:
    app = run_app(sentence="The cat sat.", step="2", layer="3", head="1", beam="2")
    header, _ = messages(app, "player")[0]
    assert header["choice"] == {"step": 2, "layer": 3, "head": 1, "shifted": False}
    wanted = {"sentence": "The cat sat.", "step": "2", "layer": "3", "head": "1", "beam": "2"}
    assert {**wanted, "alpha": "0.6"}.items() <= dict(app.query_params).items()


#: Sentences, and a part of the message that each gets.
BAD_INPUT = (
    (" \n\t\u3000\x01\u200b ", "Nothing to translate"),
    ("word " * 2000, "at most 512"),
    ("ab" * 10_000, "at most 10,000"),
    ("漢字", "`漢字`"),
    ("A dog 🐕 runs.", "`🐕`"),
    ("<script>alert(1)</script> הכלב", "`<`"),
    ("`` a ` b ``", "does not know"),
    ("A\x00 d\u0300\u0301\u202eog\x1b\u200d\ufeff runs.\r\nFast.", ""),
)


def test_any_input_gets_a_clear_message_or_a_translation(run_app: RunApp) -> None:
    app = run_app()
    for sentence, expected in BAD_INPUT:
        ask(app, sentence)
        assert expected in said(app), sentence[:20]
        assert messages(app, "player") or said(app), sentence[:20]


@pytest.mark.usefixtures("nothing_cached")
def test_a_translation_cut_at_the_limit_says_so(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "trace", partialmethod(Translator.trace, max_length=2))
    assert "Cut at the length limit" in said(run_app())


@pytest.mark.usefixtures("nothing_cached")
def test_sessions_share_traces_and_nothing_else(run_app: RunApp) -> None:
    one = ask(run_app(), "A dog runs.")
    traces = len(results.CACHE)
    other = ask(run_app(), "A dog runs.")
    assert len(results.CACHE) == traces
    assert trace_of(one) is trace_of(other)
    held = one.session_state._state.filtered_state.values()
    assert held
    assert not any(isinstance(value, Trace | np.ndarray | bytes) for value in held)


def components(app: AppTest) -> list[str]:
    shown = [each.proto.component_name for each in app.main.get("bidi_component")]
    return [name for name in shown if name in ("headlight.opening", "headlight.player")]


def test_it_plays_first_and_the_page_follows_behind_it(run_app: RunApp) -> None:
    app = run_app(root=CHECKPOINTS)
    assert components(app) == ["headlight.opening"]
    assert not messages(app, "opening")[0][0]["covers"]
    # What the browser reports; AppTest cannot send it.
    app.session_state["headlight_opening_covers"] = True
    assert components(app.run()) == ["headlight.opening", "headlight.player"]
    app.session_state["headlight_opening_second"] = True
    assert len(messages(app.run(), "opening")[0][0]["scenes"]) == 2
    # A translation ends it, even of the same sentence; it can be replayed.
    app.sidebar.button[0].click().run()
    assert components(app) == ["headlight.player"]
    ask(app, "A dog runs.")
    app.button(key="play_opening").click().run()
    assert components(app) == ["headlight.opening"]
    assert len(messages(app, "opening")[0][0]["scenes"]) == 1
    assert app.sidebar.text_area[0].value == examples_for("everyday-en-de").items[0].sentence
    app.sidebar.selectbox(key="checkpoint_box").set_value("reverse-toy").run()
    assert components(app) == ["headlight.player"]
    assert not [each for each in app.button if each.key == "play_opening"]


def test_a_link_leaves_it_out_or_asks_for_it(run_app: RunApp) -> None:
    assert components(run_app(root=CHECKPOINTS, opening="0")) == ["headlight.player"]
    assert components(run_app(root=CHECKPOINTS, step="2")) == ["headlight.player"]
    asked = run_app(root=CHECKPOINTS, opening="1", checkpoint="everyday-en-fr")
    assert components(asked) == ["headlight.opening"]
    assert messages(asked, "opening")[0][0]["target"]["name"] == "French"
    assert "opening" not in asked.query_params  # a reload does not play it again
