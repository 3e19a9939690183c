"""A choice made in the browser is not sent back; one made elsewhere is."""

from typing import Any

import pytest

from tests.messages import unpack
from ui.components import mount
from ui.components.packing import Component


def parse(reported: Any) -> Any:
    return None if reported == "bad" else reported


class Browser:
    """A component's messages, and reports in answer to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session: dict[str, Any] = {}
        self.sent: list[dict[str, Any]] = []
        self.count = 0
        monkeypatch.setattr("streamlit.session_state", self.session)
        monkeypatch.setattr(
            mount, "_registered", lambda name: lambda **given: self.sent.append(given)
        )

    def show(
        self,
        choice: Any,
        label: str = "x",
        body: bytes = b"",
        key: str = "view",
        of: str = "",
        together: tuple[str, ...] = (),
    ) -> bytes:
        self.taken: list[Any] = []
        view = Component("x", {"label": label}, body, choice, parse, of)
        mount.show(view, key=key, on_choose=self.taken.append, together=together)
        return self.sent[-1]["data"]  # type: ignore[no-any-return]

    def report(self, choice: Any, count: Any = None, session: str = "") -> None:
        """Report a choice, counted unless a count is given, in answer to the last message."""
        self.count += 1
        said = {
            "count": self.count if count is None else count,
            "choice": choice,
            "session": session or unpack(self.sent[-1]["data"])[0]["session"],
        }
        self.session["view"] = {"choice": said}
        self.sent[-1]["on_choice_change"]()


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    return Browser(monkeypatch)


def test_what_the_browser_knows_is_not_sent_again(browser: Browser) -> None:
    first = browser.show([0, 0])
    assert browser.show([0, 0]) == first
    browser.report([1, 2])
    assert browser.taken == [[1, 2]]
    assert browser.show([1, 2]) == first


def test_a_choice_from_elsewhere_or_new_content_is_sent_with_the_count(browser: Browser) -> None:
    browser.show([0, 0])
    browser.report([1, 2], 3)
    sent, _ = unpack(browser.show([2, 2]))
    assert (sent["choice"], sent["count"]) == ([2, 2], 3)
    browser.report([1, 1], 4)
    sent, _ = unpack(browser.show([1, 1], label="y"))
    assert (sent["choice"], sent["count"]) == ([1, 1], 4)
    assert browser.show([1, 1], label="y", body=b"other")[-5:] == b"other"


@pytest.mark.parametrize(("choice", "count"), [("bad", 1), ([1, 2], "1"), ([1, 2], True)])
def test_what_does_not_fit_changes_nothing(browser: Browser, choice: Any, count: Any) -> None:
    first = browser.show([0, 0])
    browser.report(choice, count)
    assert browser.taken == [] and browser.show([0, 0]) == first
    browser.session["view"] = {"choice": None}
    browser.sent[-1]["on_choice_change"]()
    assert browser.taken == []


def test_components_and_sessions_do_not_mix(browser: Browser) -> None:
    one, other = (unpack(browser.show([0], key=key))[0] for key in ("one", "other"))
    assert one["session"] != other["session"]


def test_a_choice_in_another_thing_is_ignored(browser: Browser) -> None:
    before, _ = unpack(browser.show([0], of="one"))
    browser.report([1])
    now, _ = unpack(browser.show([2], of="two"))
    assert now["session"] != before["session"] and now["choice"] == [2]
    browser.report([1], session=before["session"])
    assert browser.taken == [] and unpack(browser.show([2], of="two"))[0] == now


def test_what_moves_along_is_not_sent_again(browser: Browser) -> None:
    other = browser.show([0], key="other")
    browser.show([0], together=("other",))
    browser.report([1])
    assert browser.show([1], key="other") == other
    sent, _ = unpack(browser.show([2], key="other"))
    assert sent["count"] == browser.count
