"""Compare is made of rooms: one line adds a section, and a side shows what its own page shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from figures.exhibit import Exhibit, Series
from tests.pages.conftest import ROOT
from tests.pages.test_compare_views import messages
from ui.compare import sections
from ui.core import url_state
from ui.core.side import Side, other
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import bound
from ui.export.download import source_of, trace_for
from ui.export.programs import header
from ui.frame.pages import PAGES
from ui.frame.twice import Download, Pair, Twice

RunApp = Callable[..., AppTest]
SENTENCE = "A dog runs."
SHIPPED = ROOT / "checkpoints"

pytestmark = pytest.mark.timeout(600)

#: What a page needs to join Compare: a setting, a drawing of one view, and its figure.
LEAST: Param[int] = Param("least", url_state.whole(1, 9), 2)


def draw_lengths(side: Side) -> None:
    """Draw the lengths of the source tokens."""
    st.slider("At least", 1, 9, **bound(side.own(LEAST)))
    least = url_state.get(side.own(LEAST))
    long = [token for token in side.trace.src_tokens if len(token) >= least]
    st.markdown(f"{side.lead}{len(long)} tokens of at least {least}: {' '.join(long)}")


def lengths_exhibit(view: View) -> Exhibit:
    tokens = trace_for(view).src_tokens
    lengths = np.array([len(token) for token in tokens])
    return Exhibit(
        "lengths", "Lengths", "Of the source tokens.",
        (Series("length", tokens, {"length": lengths}),), {"lengths": lengths},
        f"{header(source_of(view))}lengths = np.array([len(each) for each in trace.src_tokens])\n",
    )  # fmt: skip


def draw_both(pair: Pair) -> Download | None:
    pair.rows(draw_lengths)
    pair.links()
    return pair.download(lambda side: partial(lengths_exhibit, side.view))


def test_one_line_adds_a_section_that_draws_both_sides(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTIONS", (
        *sections.SECTIONS,
        Twice(
            "lengths", draw_both, page="tokens", title="Lengths", params=(LEAST, other(LEAST))
        ),
    ))  # fmt: skip
    query = {"pairing": "sentences", "second": "Her unbelievable cats sleep.", "topic": "lengths"}
    app = run_app(at="compare", checkpoint="alpha", sentence=SENTENCE, other_least="5", **query)
    control = app.segmented_control(key="topic_widget")
    assert control.value == "lengths" and control.options[-1] == "Lengths"
    drawn = [each.value for each in app.main.markdown if "tokens of at least" in each.value]
    assert [each[:5] for each in drawn] == ["**A**", "**B**"]
    assert "at least 2" in drawn[0] and "at least 5" in drawn[1]
    links = [each.proto.label for each in app.main.get("page_link")]
    assert links == ["A on Tokens", "B on Tokens"]
    assert app.main.get("download_button")
    app.slider(key="least_widget").set_value(3).run()
    assert not app.exception
    assert app.query_params["least"] == "3" and app.query_params["other_least"] == "5"
    reopened = run_app(at="compare", **dict(app.query_params))
    assert reopened.segmented_control(key="topic_widget").value == "lengths"
    assert reopened.slider(key="other_least_widget").value == 5


def test_a_page_is_in_compare_at_most_once_and_under_its_own_title() -> None:
    names = [room.name for room in sections.SECTIONS]
    pages = [room.page for room in sections.SECTIONS if room.page]
    assert len(set(names)) == len(names) and len(set(pages)) == len(pages)
    titles = {spec.url_path: spec.title for spec in PAGES}
    assert all(room.label == titles[room.page] for room in sections.SECTIONS if room.page)


#: A section, the component in which the page and both sides of Compare show their numbers, and
#: the settings of the same view.
SAME: dict[str, tuple[str, dict[str, str]]] = {
    "translate": ("headlight.player", {"step": "2", "layer": "2", "head": "3"}),
    "beam": ("headlight.tree", {"dropped": "on"}),
    "attention": (
        "headlight.lens", {"kind": "encoder_self", "layer": "2", "head": "3", "units": "words"},
    ),
    "head": (
        "headlight.stages",
        {"kind": "encoder_self", "layer": "2", "head": "3", "query": "2", "key": "3"},
    ),
    "tokens": ("headlight.cut", {"tokens_of": "source", "token": "7"}),
}  # fmt: skip

#: Keys that depend on where a component is: on a page alone, or beside another.
PLACE = {
    "follows", "group", "label", "max_height", "never", "session", "single", "steerable",
}  # fmt: skip


def numbers(message: tuple[dict[str, Any], bytes]) -> tuple[dict[str, Any], bytes]:
    """Return a message without the keys that may differ between a page and Compare."""
    header, body = message
    kept = {name: value for name, value in header.items() if name not in PLACE}
    start = kept.get("start", {})
    return kept | {"start": {k: v for k, v in start.items() if k not in {"nonce", "b"}}}, body


@pytest.mark.parametrize("page", SAME)
def test_a_side_shows_the_numbers_of_its_own_page(run_app: RunApp, page: str) -> None:
    component, settings = SAME[page]
    room = next(room for room in sections.SECTIONS if room.page == page)
    # Both sides of Compare decode alike; alone, each checkpoint has defaults of its own.
    shared = {"sentence": SENTENCE, "beam": "2", "alpha": "0.6", **settings}
    beside = run_app(
        SHIPPED, at="compare", checkpoint="everyday-en-de", other="multi30k-en-de",
        topic=room.name, **shared,
    )  # fmt: skip
    sides = messages(beside, component)
    assert len(sides) == 2
    for letter, name, shown in zip("AB", ("everyday-en-de", "multi30k-en-de"), sides, strict=True):
        more = {}
        if page == "beam":
            more = {"a": beside.query_params[f"node_{letter.lower()}"]}
        elif page == "tokens" and letter == "B":
            shown[0]["chosen"] = 7  # B follows a piece of its own, none here
        at = "" if page == "translate" else page
        alone = run_app(SHIPPED, at=at, checkpoint=name, **shared, **more)
        wanted, body = numbers(messages(alone, component)[0])
        found, found_body = numbers(shown)
        assert found_body == body
        assert found == wanted


def test_positions_of_a_side_are_those_that_its_model_adds(run_app: RunApp) -> None:
    """The page draws the formula at the checkpoint's own size, which these checkpoints compute."""
    query = {"sentence": SENTENCE, "positions": "20"}
    beside = run_app(
        SHIPPED, at="compare", checkpoint="everyday-en-de", other="reverse-toy",
        topic="positions", **query,
    )  # fmt: skip
    charts = beside.main.get("plotly_chart")
    for chart, name in zip(charts, ("everyday-en-de", "reverse-toy"), strict=True):
        alone = run_app(SHIPPED, at="positions", checkpoint=name, **query)
        assert table_of(chart) == table_of(alone.main.get("plotly_chart")[0])


def table_of(chart: Any) -> Any:
    return json.loads(chart.proto.spec)["data"][0]["z"]
