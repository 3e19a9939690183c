"""Every control of every page is in the link: zero, off, first and last included.

Nothing here names a control. Every widget that AppTest finds is set to each of its ends, the link
is opened in a new session, and there every widget must have the same value. Then every setting that
a page shows (see `ui.core.url_state.show`), also those that only a component changes, is written to
a link and read back. A new control without a place in the URL fails here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest, element_tree
from streamlit.testing.v1.element_tree import (
    Button,
    DownloadButton,
    MenuButton,
    UnknownElement,
    Widget,
)

from ui.core import url_state
from ui.core.url_state import Param
from ui.frame.pages import PAGES, PageSpec

RunApp = Callable[..., AppTest]
Name = tuple[str, str]

#: Controls that are actions, not state: their key, and why they leave nothing.
ACTS = {
    "example_box": "takes an example as the sentence, and is empty again",
}

#: Suffix of the keys of controls for files, which change nothing on the page.
OF_FILES = "_figure_size"

#: Elements that AppTest does not model. Those of components hold what Params say (tested below);
#: none of the others keeps anything.
STATELESS = {
    "bidi_component", "empty", "plotly_chart", "popover", "spinner", "vega_lite_chart",
}  # fmt: skip

#: Pages without a control of their own.
WITHOUT = {"tours"}

#: Settings that the sidebar and the frame bring to every page; tried on the first.
EVERYWHERE = {
    "sentence", "checkpoint", "device", "beam", "alpha", "sample", "temperature", "top_k", "top_p",
    "seed", "prefix", "target", "present",
}  # fmt: skip

#: Views of a page whose controls cannot be reached from its first view.
INSIDE: dict[str, tuple[dict[str, str], ...]] = {
    "compare": ({"topic": "head"}, {"topic": "tokens"}, {"topic": "positions"}, {"topic": "heads"}),
}

#: A tour sets other controls; tests/pages/test_tours_page.py opens its stops.
TOURS = {"tour", "stop", "guess"}

#: Raw strings to try for a Param; those that its parser takes are used.
SAMPLES = (
    "0", "1", "2", "3", "0.5", "1.2", "8", "40", "none", "mean", "on", "off", "q1", "k2", "1.1-2.2",
    "1-2", "5.6", "A dog.", "tokens", "words", "all", "encoder_self-cross",
)  # fmt: skip

SENTENCE = "The cat sat on the mat."

pytestmark = pytest.mark.timeout(1_200)


class Label(str):
    """An option as shown, already formatted."""

    __slots__ = ()


@pytest.fixture(autouse=True)
def _labels_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = element_tree._format_value_for_widget

    def formatted(function: Callable[[Any], str], value: Any) -> str:
        return str(value) if isinstance(value, Label) else plain(function, value)

    monkeypatch.setattr(element_tree, "_format_value_for_widget", formatted)


@pytest.fixture
def open_page(
    run_app: RunApp, random_checkpoints: Path, tiny_parser: Path
) -> Callable[[PageSpec, dict[str, str]], AppTest]:
    """Open a page by its link, in a new session."""

    def opened(spec: PageSpec, query: dict[str, str]) -> AppTest:
        root = random_checkpoints
        if spec.url_path == "parsing":
            root, query = tiny_parser.parent, {**query, "checkpoint": tiny_parser.name}
        return run_app(root, at="" if spec is PAGES[0] else spec.url_path, **query)

    return opened


def nodes(app: AppTest) -> Iterator[Any]:
    return iter(app._tree)


def widgets(app: AppTest) -> dict[Name, Any]:
    """Return all widgets by type and key."""
    found: dict[Name, Any] = {}
    for node in nodes(app):
        if isinstance(node, UnknownElement):
            assert node.type in STATELESS, f"a {node.type} that this test does not know"
            # A clickable chart needs an id and a place in the URL, like a widget.
            proto = getattr(node, "proto", None)
            assert node.type == "bidi_component" or not getattr(proto, "selection_mode", ())
        if not isinstance(node, Widget) or isinstance(node, Button | DownloadButton | MenuButton):
            continue
        assert node.key, f"{node.type} {node.label!r} has no key"
        if node.key not in ACTS and not node.key.endswith(OF_FILES):
            found[node.type, node.key] = node
    return found


def values(app: AppTest) -> dict[Name, Any]:
    return {name: node.value for name, node in widgets(app).items()}


def ends(node: Any) -> list[Any]:
    """Return values to try: first and last, off and on, zero and its neighbours."""
    if node.disabled:
        return []
    kind = node.type
    if kind in ("toggle", "checkbox"):
        return [not node.value, bool(node.value)]
    if kind in ("selectbox", "radio", "button_group", "pagination"):
        labels = [Label(option) for option in node.options]
        if kind == "button_group" and not node._is_single_select:
            return [[], labels[:1], labels[-2:]]
        return [labels[0], labels[-1]]
    if kind == "multiselect":
        labels = [Label(option) for option in node.options]
        return [[], labels[:1], labels[-2:]]
    if kind in ("slider", "number_input"):
        low, high = node.min, node.max
        zero = [type(low)(0)] if low < 0 < high else []
        return [low, high, *zero]
    if kind == "select_slider":
        return [node.options[0], node.options[-1]]
    if kind in ("text_input", "text_area"):
        return ["=0", "A little <b>dog</b>."]
    raise AssertionError(f"say in this test what the ends of a {kind} are")


def change(app: AppTest, name: Name, value: Any) -> None:
    """Set a widget as a user would; inside a form, send the form."""
    node = widgets(app)[name]
    node.set_value(value)
    form = getattr(node, "form_id", "")
    if form:
        for other in widgets(app).values():  # an empty form is not accepted
            if getattr(other, "form_id", "") == form and other.type == "text_input":
                other.set_value(other.value or "A dog")
        sent = [each for each in nodes(app) if isinstance(each, Button) and each.form_id == form]
        sent[0].click()
    app.run()
    assert not app.exception


class Links:
    """The widgets' values by link; each link is opened once."""

    def __init__(self, spec: PageSpec, open_page: Callable[[PageSpec, dict[str, str]], AppTest]):
        self._spec, self._open, self._opened = spec, open_page, dict[Any, Any]()

    def open(self, link: dict[str, str]) -> tuple[dict[Name, Any], dict[str, str]]:
        """Return the widgets' values, and the link after opening."""
        known = frozenset(link.items())
        if known not in self._opened:
            app = self._open(self._spec, link)
            self._opened[known] = values(app), dict(app.query_params)
        return self._opened[known]


def agree(app: AppTest, links: Links, after: str) -> None:
    here, (there, _) = values(app), links.open(dict(app.query_params))
    differing = {
        name: (here.get(name), there.get(name))
        for name in here.keys() | there.keys()
        if here.get(name) != there.get(name) or (name in here) != (name in there)
    }
    assert not differing, f"after {after}, the link {app.query_params} gives (here, there)"


@pytest.mark.parametrize("spec", PAGES, ids=lambda spec: spec.url_path)
def test_every_control_of_a_page_comes_back_from_its_link(
    spec: PageSpec, open_page: Callable[[PageSpec, dict[str, str]], AppTest]
) -> None:
    start = {"checkpoint": "alpha", "sentence": SENTENCE}
    app, links = open_page(spec, start), Links(spec, open_page)
    agree(app, links, "nothing")
    seen: set[Name] = set()
    waiting: deque[tuple[Name, dict[str, str]]] = deque()

    def look(app: AppTest) -> None:
        """Record controls not seen before, and their link."""
        for name, node in widgets(app).items():
            # The sidebar is the same on every page and is tried on the first.
            if name not in seen and (spec is PAGES[0] or not in_sidebar(app, node)):
                seen.add(name)
                waiting.append((name, dict(app.query_params)))

    look(app)
    for view in INSIDE.get(spec.url_path, ()):
        look(open_page(spec, {**start, **view}))
    assert seen or spec.url_path in WITHOUT
    while waiting:
        name, link = waiting.popleft()
        app = open_page(spec, link)
        for value in ends(widgets(app)[name]):
            if name not in widgets(app):
                app = open_page(spec, link)
            change(app, name, value)
            agree(app, links, f"setting {name} to {value!r}")
            look(app)


def in_sidebar(app: AppTest, node: Any) -> bool:
    return any(each is node for each in app.sidebar)


@pytest.mark.parametrize("spec", PAGES, ids=lambda spec: spec.url_path)
def test_every_setting_of_a_page_goes_into_its_link_and_out_again(
    spec: PageSpec,
    open_page: Callable[[PageSpec, dict[str, str]], AppTest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: dict[str, Param[Any]] = {}
    show = url_state.show

    def listening(*params: Param[Any]) -> None:
        shown.update({param.name: param for param in params})
        show(*params)

    monkeypatch.setattr(url_state, "show", listening)
    start = {"checkpoint": "alpha", "sentence": SENTENCE}
    open_page(spec, start)
    links = Links(spec, open_page)
    assert {"sentence", "checkpoint", "beam", "alpha"} <= shown.keys()
    tried: dict[str, list[str]] = {}
    for param in list(shown.values()):
        if param.name in TOURS or (spec is not PAGES[0] and param.name in EVERYWHERE):
            continue
        samples = [raw for raw in (*words(param), *SAMPLES) if allowed(param, raw)]
        own = [] if param.name in start else [param.write(param.default)]
        tried[param.name] = [raw for raw in dict.fromkeys([*own, *samples]) if raw][:3]
        assert tried[param.name], f"add to SAMPLES what {param.name} may be"
    # Four at a time, far from each other in the link.
    names, groups = list(tried), -(-len(tried) // 4)
    for several in (names[at::groups] for at in range(groups)):
        for raws in zip_longest(*(tried[name] for name in several)):
            asked = {name: raw for name, raw in zip(several, raws, strict=True) if raw}
            app = open_page(spec, {**start, **asked})
            link = dict(app.query_params)
            # Values that do not exist in this model or sentence are dropped or clipped, once.
            assert links.open(link)[1] == link, asked
            agree(app, links, f"opening {asked}")


def words(param: Param[Any]) -> tuple[str, ...]:
    """Return the words that a `state.one_of` allows."""
    cells = getattr(param.parse, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells]
    return next((each for each in held if isinstance(each, tuple)), ())


def allowed(param: Param[Any], raw: str) -> bool:
    """Whether the Param itself would write this raw string."""
    try:
        return param.write(param.parse(raw)) == raw
    except ValueError:
        return False


def test_a_control_that_two_pages_share_says_the_same_on_both(
    open_page: Callable[[PageSpec, dict[str, str]], AppTest],
) -> None:
    start = {"checkpoint": "alpha", "sentence": SENTENCE, "units": "words"}
    app = open_page(PAGES[0], start)
    assert app.toggle(key="units_widget").value
    for spec in PAGES:
        app.switch_page(spec.file).run()
        assert not app.exception
        for toggle in app.toggle:
            if toggle.key == "units_widget":
                assert toggle.value, spec.title
