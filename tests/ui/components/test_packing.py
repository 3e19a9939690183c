import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forks import ROOT
from tests.messages import inflate, unpack
from ui.components import mount, packing
from ui.components.packing import COMPONENTS, Component

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(header=st.dictionaries(st.text(), JSON, max_size=4), body=st.binary(max_size=40))
def test_what_goes_in_comes_out(header: dict[str, Any], body: bytes) -> None:
    message = packing.pack(header, body)
    assert unpack(message) == (header, body)
    assert (len(message) - len(body)) % 4 == 0


@given(
    header=st.dictionaries(st.text(), JSON, max_size=4),
    parts=st.lists(st.binary(max_size=2000), max_size=3),
)
def test_what_is_deflated_is_one_message(header: dict[str, Any], parts: list[bytes]) -> None:
    assert inflate(packing.deflate(header, *parts)) == (header, b"".join(parts))


def test_half_a_surrogate_pair_does_not_stop_the_page_and_no_number_is_refused() -> None:
    assert unpack(packing.pack({"token": "a\ud800"}, b""))[0] == {"token": "a?"}
    with pytest.raises(ValueError, match="JSON"):
        packing.pack({"x": float("nan")}, b"")


@given(JSON | st.floats())
def test_a_field_is_of_the_wanted_type_and_size(value: Any) -> None:
    found = packing.fields(
        {"a": value, "b": 2, "c": 1}, a=(None, "x", range(1, 3), False), b=range(3)
    )
    fine = (
        value is None or value is False or (type(value) is int and value in (1, 2)) or value == "x"
    )
    assert found == ({"a": value, "b": 2} if fine else None)
    assert packing.fields({}, a=range(3)) is None and packing.fields(value, b=range(3)) is None


@pytest.mark.parametrize("value", [-1, 3, True, False, 0.0, "0", None, [0], float("nan")])
def test_only_an_integer_in_range_is_an_index(value: Any) -> None:
    assert packing.fits(2, range(3)) and not packing.fits(value, range(3))
    assert packing.index_pair([2, 1], (3, 2)) == (2, 1)
    for pair in ([value, 0], [0, value], [0], [0, 0, 0], value):
        assert packing.index_pair(pair, (3, 3)) is None


def test_a_component_offline_has_its_choice_and_no_session() -> None:
    view = packing.Component("x", {"label": "y"}, b"z", choice=[0], parse=lambda reported: reported)
    header, body = unpack(view.offline(title="A").message)
    assert body == b"z"
    assert header == {"label": "y", "choice": [0], "count": 0, "session": "offline"}
    assert unpack(packing.Component("x", {"label": "y"}).message())[0] == {"label": "y"}


def parse(reported: Any) -> Any:
    return None if reported == "bad" else reported


class Browser:
    """A component's messages and the browser's replies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session: dict[str, Any] = {}
        self.sent: list[dict[str, Any]] = []
        self.count = 0
        monkeypatch.setattr("streamlit.session_state", self.session)
        monkeypatch.setattr(
            mount, "_registered", lambda name: lambda **given: self.sent.append(given)
        )

    def show(
        self, choice: Any, label: str = "x", body: bytes = b"", key: str = "view", of: str = "",
        together: tuple[str, ...] = (),
    ) -> bytes:  # fmt: skip
        self.taken: list[Any] = []
        view = Component("x", {"label": label}, body, choice, parse, of)
        mount.show(view, key=key, on_choose=self.taken.append, together=together)
        return self.sent[-1]["data"]  # type: ignore[no-any-return]

    def report(self, choice: Any, count: Any = None, session: str = "") -> None:
        """Reply to the last message with a choice, counted by default."""
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


FOLDER = ROOT / "ui/components"
BUNDLES = FOLDER / "bundles"
MODULES = {
    path: path.read_text("utf-8")
    for path in sorted([*FOLDER.rglob("*.js"), *FOLDER.parent.glob("platform/*.js")])
    if path.parent != BUNDLES and path.name != "index.js"
}
EXPORT = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r"^import \{(.*?)\}\s+from", re.DOTALL | re.MULTILINE)


def imported(text: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(IMPORTED.findall(text))))


def test_every_component_has_a_bundle() -> None:
    folders = {path.parent.name for path in MODULES} - {"shared", "platform"}
    assert set(COMPONENTS) == folders == {path.stem for path in BUNDLES.glob("*.css")}


def test_bundles_are_those_of_the_sources(tmp_path: Path) -> None:
    """If this fails, run `make components`."""
    if not shutil.which("npx"):
        pytest.skip("bundling needs npm")
    asked = ["npx", "--yes", "esbuild@0.25.12", "--version"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("npm cannot get esbuild")
    made = tmp_path / "bundles"
    subprocess.run(["make", "-s", "components", f"OUT={made}"], cwd=ROOT, check=True)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        path.name: path.read_bytes() for path in BUNDLES.iterdir()
    }


def test_a_module_imports_what_it_calls() -> None:
    exported = {name for text in MODULES.values() for name in EXPORT.findall(text)}
    for path, text in MODULES.items():
        called = set(re.findall(r"(?:(?<![\w.])|(?<=\.{3}))(\w+)\(", text))
        own = set(re.findall(r"(?:function|class|const|let) (\w+)", text))
        own |= set(re.findall(r"^ *(?:async )?(\w+)\(.*\) \{$", text, re.MULTILINE))  # methods
        own |= set(re.findall(r"(?<![\w.])(\w+)\b(?!\()", text))  # parameters
        assert not (called & exported) - own - imported(text), path.name


def test_every_export_is_imported() -> None:
    used = set.union(*map(imported, MODULES.values()))
    for path, text in MODULES.items():
        assert set(EXPORT.findall(text)) <= used, path.name
