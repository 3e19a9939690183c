"""A choice made in the browser is not sent back; one made elsewhere is."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ui.components.mount import listener, message
from ui.components.packing import still

HEADER, BODY = {"label": "x"}, b"maps"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    state: dict[str, Any] = {}
    monkeypatch.setattr("ui.components.mount.st", SimpleNamespace(session_state=state))
    return state


def header_of(sent: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(sent[4 : 4 + int.from_bytes(sent[:4], "little")])
    return header


def click(session: dict[str, Any], held: Any, count: Any) -> list[Any]:
    """Report a choice from the browser. Returns: the page's choice."""
    taken: list[Any] = []
    session["view"] = {"held": {"count": count, "held": held}}
    listener("view", lambda reported: reported if reported != "bad" else None, taken.append)()
    return taken


def test_what_the_browser_knows_is_not_sent_again(session: dict[str, Any]) -> None:
    first = message("view", HEADER, BODY, [0, 0])
    assert message("view", HEADER, BODY, [0, 0]) == first
    assert click(session, [1, 2], 1) == [[1, 2]]
    assert message("view", HEADER, BODY, [1, 2]) == first


def test_a_choice_from_elsewhere_is_sent_and_is_newer(session: dict[str, Any]) -> None:
    message("view", HEADER, BODY, [0, 0])
    click(session, [1, 2], 3)
    sent = header_of(message("view", HEADER, BODY, [2, 2]))
    assert (sent["held"], sent["count"]) == ([2, 2], 3)


def test_new_content_says_what_is_chosen_now(session: dict[str, Any]) -> None:
    message("view", HEADER, BODY, [0, 0])
    click(session, [1, 2], 1)
    sent = header_of(message("view", {"label": "y"}, BODY, [1, 2]))
    assert (sent["held"], sent["count"]) == ([1, 2], 1)
    assert message("view", {"label": "y"}, b"other", [1, 2]) != sent


@pytest.mark.parametrize(
    ("held", "count"), [("bad", 1), ([1, 2], "1"), ([1, 2], True), ([1], None)]
)
def test_what_does_not_fit_changes_nothing(session: dict[str, Any], held: Any, count: Any) -> None:
    first = message("view", HEADER, BODY, [0, 0])
    assert click(session, held, count) == []
    assert message("view", HEADER, BODY, [0, 0]) == first
    session["view"] = {"held": None}
    listener("view", lambda reported: reported, lambda _: pytest.fail("taken"))()


def test_components_and_sessions_do_not_mix(session: dict[str, Any]) -> None:
    one, other = (header_of(message(key, HEADER, BODY, [0])) for key in ("one", "other"))
    assert one["session"] != other["session"]
    assert header_of(still(HEADER, BODY, [0]))["session"] == "still"
