"""The opening: a session that begins without any setting sees it once, before the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.pages.conftest import ROOT
from ui.core.examples import examples_for

RunApp = Callable[..., AppTest]
SHIPPED = ROOT / "checkpoints"


def components(app: AppTest) -> list[str]:
    shown = [each.proto.component_name for each in app.main.get("bidi_component")]
    return [name for name in shown if name in ("headlight.opening", "headlight.player")]


def header_of(app: AppTest) -> dict[str, Any]:
    (message,) = [
        each.proto.bytes
        for each in app.main.get("bidi_component")
        if each.proto.component_name == "headlight.opening"
    ]
    header: dict[str, Any] = json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])
    return header


def test_it_plays_first_and_the_page_follows_behind_it(run_app: RunApp) -> None:
    app = run_app(root=SHIPPED)
    assert components(app) == ["headlight.opening"]
    assert not header_of(app)["covers"]
    # What the browser reports; AppTest cannot send it.
    app.session_state["headlight_opening_covers"] = True
    assert components(app.run()) == ["headlight.opening", "headlight.player"]
    app.session_state["headlight_opening_second"] = True
    assert len(header_of(app.run())["scenes"]) == 2
    # A translation ends it, even of the same sentence; it can be replayed.
    app.sidebar.button[0].click().run()
    assert components(app) == ["headlight.player"]
    app.sidebar.text_area[0].set_value("A dog runs.")
    app.sidebar.button[0].click().run()
    app.button(key="play_opening").click().run()
    assert components(app) == ["headlight.opening"] and len(header_of(app)["scenes"]) == 1
    assert app.sidebar.text_area[0].value == examples_for("everyday-en-de").items[0].sentence
    app.sidebar.selectbox(key="checkpoint_box").set_value("reverse-toy").run()
    assert components(app) == ["headlight.player"]
    assert not [each for each in app.button if each.key == "play_opening"]


def test_a_link_leaves_it_out_or_asks_for_it(run_app: RunApp) -> None:
    assert components(run_app(root=SHIPPED, opening="0")) == ["headlight.player"]
    assert components(run_app(root=SHIPPED, step="2")) == ["headlight.player"]
    asked = run_app(root=SHIPPED, opening="1", checkpoint="everyday-en-fr")
    assert components(asked) == ["headlight.opening"]
    assert header_of(asked)["target"]["name"] == "French"
    assert "opening" not in asked.query_params  # a reload does not play it again
