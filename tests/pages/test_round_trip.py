"""Every control of every page is restored from the link.

Each widget that AppTest finds is set to another value, and the page is compared with a new session
that opens the link, so a new control without a URL parameter fails here.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest, element_tree
from streamlit.testing.v1.element_tree import Button, DownloadButton, Widget

from figures.removals import BAR, OUT, PART, selection_of
from tests.pages.conftest import RunApp
from transformer.types import ATTENTION_KINDS as KINDS
from ui.frame.page import Page, all_pages

Name = tuple[str, str]

#: Controls whose state a link does not hold: their key, and why.
ACTS = {
    "example_box": "takes an example as the sentence, and is empty again",
    "edit_box": "adds an edit to the link, and is empty again",
    "door_entry": "opens another page",
    "own_links": "takes links of the visitor, which are too long for a link",
    "own_first": "counts words of the same links from 0 or 1",
}

#: Suffixes of the keys of controls for files, which change nothing on the page.
OF_FILES = ("_figure_size", "_figure_titled")

#: Elements that AppTest does not model. Those of components hold what Params say (tested below);
#: none of the others keeps anything.
STATELESS = {"bidi_component", "empty", "plotly_chart", "popover", "spinner", "vega_lite_chart"}

#: Pages with settings, whose controls are in the picture, in the menu, or wait for a model.
WITHOUT = ("family", "floor", "tours")

#: Views of a page whose controls cannot be reached from its first view.
INSIDE: dict[str, tuple[dict[str, str], ...]] = {
    "translate": ({"view": "layers"}, {"view": "why", "step": "2"}),
    "attention": ({"display": "heads"}, {"display": "matrix"}),
    "training": ({"training_view": "watch"}, {"training_view": "table3"}),
    "compare": ({"topic": "head"}, {"topic": "tokens"}, {"topic": "positions"}, {"topic": "heads"}),
}

SENTENCE = "The cat sat on the mat."

pytestmark = pytest.mark.timeout(1_200)


class Label(str):
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
) -> Callable[[Page, dict[str, str]], AppTest]:
    def opened(spec: Page, query: dict[str, str]) -> AppTest:
        root = random_checkpoints
        if spec.path == "parsing":
            root, query = tiny_parser.parent, {**query, "checkpoint": tiny_parser.name}
        return run_app(root, at="" if spec is all_pages()[0] else spec.path, **query)

    return opened


def nodes(app: AppTest) -> Iterator[Any]:
    return iter(app._tree)


def widgets(app: AppTest) -> dict[Name, Any]:
    found: dict[Name, Any] = {}
    for node in nodes(app):
        if isinstance(node, element_tree.UnknownElement):
            assert node.type in STATELESS, f"a {node.type} that this test does not know"
            # A clickable chart needs an id and a place in the URL, like a widget; a click on a part
            # or on a point of a curve is an edit, which the URL holds, or opens the head.
            proto = getattr(node, "proto", None)
            known = {BAR, PART, *OUT, *map(selection_of, KINDS)}
            picked = set(getattr(proto, "selection_mode", ())) - known
            assert node.type == "bidi_component" or not picked
        if not isinstance(node, Widget) or isinstance(
            node, Button | DownloadButton | element_tree.MenuButton
        ):
            continue
        assert node.key, f"{node.type} {node.label!r} has no key"
        if node.key not in ACTS and not node.key.endswith(OF_FILES):
            found[node.type, node.key] = node
    return found


def values(app: AppTest) -> dict[Name, Any]:
    return {name: node.value for name, node in widgets(app).items()}


def ends(node: Any) -> list[Any]:
    if node.disabled:
        return []
    labels = [Label(option) for option in getattr(node, "options", ())]
    match node.type:
        case "toggle" | "checkbox":
            return [not node.value, bool(node.value)]
        case "button_group" if not node._is_single_select:
            return [[], labels[:1], labels[-2:]]
        case "selectbox" | "radio" | "button_group" | "pagination":
            return [labels[0], labels[-1]]
        case "multiselect":
            return [[], labels[:1], labels[-2:]]
        case "select_slider":
            return [node.options[0], node.options[-1]]
        case "slider" | "number_input":
            zero = [type(node.min)(0)] if node.min < 0 < node.max else []
            return [node.min, node.max, *zero]
        case "text_input" | "text_area":
            return ["=0", "A little <b>dog</b>."]
    raise AssertionError(f"say in this test what the ends of a {node.type} are")


def change(app: AppTest, name: Name, seen: int) -> bool:
    """Set a widget to another value as a user would, submitting its form."""
    node = widgets(app)[name]
    shown = node.value if isinstance(node.value, list) else [node.value]
    others = [value for value in ends(node) if value not in (node.value, shown)]
    if not others:
        return False
    node.set_value(others[seen % len(others)])
    form = getattr(node, "form_id", "")
    if form:
        for other in widgets(app).values():  # an empty form is not accepted
            if getattr(other, "form_id", "") == form and other.type == "text_input":
                other.set_value(other.value or "A dog")
        sent = [each for each in nodes(app) if isinstance(each, Button) and each.form_id == form]
        sent[0].click()
    app.run()
    return True


@pytest.mark.parametrize("spec", all_pages(), ids=lambda spec: spec.path)
def test_every_control_of_a_page_comes_back_from_its_link(
    spec: Page, open_page: Callable[[Page, dict[str, str]], AppTest]
) -> None:
    seen: set[Name] = set()
    for view in ({}, *INSIDE.get(spec.path, ())):
        app = open_page(spec, {"checkpoint": "alpha", "sentence": SENTENCE, **view})
        while True:
            here, link = values(app), dict(app.query_params)
            # The sidebar is the same on every page and is tried on the first.
            new = [name for name, node in widgets(app).items() if name not in seen
                   and (spec is all_pages()[0] or not in_sidebar(app, node))]  # fmt: skip
            changed = False
            while new and not changed:
                seen.add(new[0])
                changed = change(app, new.pop(0), len(seen))
            if not changed or widgets(app).keys() != here.keys():
                assert values(open_page(spec, link)) == here, f"the link {link}"
            if not changed:
                break
    assert seen or not spec.params or spec.path in WITHOUT


def in_sidebar(app: AppTest, node: Any) -> bool:
    return any(each is node for each in app.sidebar)


#: Links with settings that are no defaults, some of them in popovers.
SET: dict[str, dict[str, str]] = {
    "": {"prefix": "4.5"},
    "attention": {"combine": "max", "map": "heads", "heads": "1.2-2.3", "display": "matrix"},
    "compare": {"topic": "maps", "units": "words", "dim": "on", "combine": "max"},
}


def opens_on(node: Any) -> Any:
    """Return the value that a browser would show for a new widget after this run."""
    proto = node.proto
    if node.type in ("button_group", "multiselect"):
        defaults = [node.options[index] for index in proto.default]
        return list(proto.raw_values) if proto.set_value else defaults
    if node.type in ("selectbox", "radio"):
        return proto.raw_value if proto.set_value else node.options[proto.default]
    return proto.value if proto.set_value else proto.default


def holds(node: Any) -> Any:
    """Return the widget's value on the server, in the format of `opens_on`."""
    if node.type == "button_group":
        return list(node.formatted_values)
    if node.type in ("selectbox", "radio"):
        return node.options[node.index]
    if node.type == "slider":
        return [node.value]
    if node.type == "multiselect":
        return [node.options[index] for index in node.indices]
    return node.value


def filled(app: AppTest) -> list[Any]:
    door = app.button_group(key="door_entry")
    return [door, *(node for node in widgets(app).values() if node.type != "text_input")]


@pytest.mark.parametrize("page", SET)
def test_widgets_open_on_what_is_set_after_any_run(run_app: RunApp, page: str) -> None:
    """A browser draws widgets late, and may report no choice for buttons drawn too early."""
    app = run_app(at=page, checkpoint="alpha", sentence=SENTENCE, **SET[page])
    before = values(app)
    for _ in range(2):
        for node in filled(app):
            assert holds(node) not in (None, ""), f"{node.key} shows nothing"
            assert opens_on(node) == holds(node), node.key
        app._run(WidgetStates())
    for node in filled(app):
        if node.type == "button_group":
            node.set_value(None)
    app.run()
    assert not app.exception and values(app) == before
