"""The Beam search page in a browser: click a node, compare it with another, move with the keys."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from figures.numbers import signed
from tests.browser.waiting import OpenPage, until_idle
from transformer.measures.beam import Node, Tree, beam_tree, compare
from transformer.translator import Translator

SENTENCE = "The cat <b>sat</b> on it."


@pytest.fixture(scope="module")
def tree(tiny_translator: Translator) -> Tree:
    return beam_tree(tiny_translator.trace(SENTENCE))


def name_of(node: Node) -> str:
    return f"{node.step + 1}.{node.rank + 1}"


def click(page: Page, node: Node, **options: object) -> None:
    """Click a node where the tree says that it lies, once it is in sight."""
    canvas = page.locator("canvas.nodes")
    expect(canvas).to_have_attribute("data-places", re.compile(f'"{name_of(node)}":'))
    until_idle(page)
    places = json.loads(canvas.get_attribute("data-places") or "{}")
    x, y = places[name_of(node)]
    canvas.click(position={"x": x, "y": y}, **options)  # type: ignore[arg-type]


def test_click_compare_and_keys(open_page: OpenPage, address: str, tree: Tree) -> None:
    page = open_page(f"{address}/beam?sentence={quote(SENTENCE)}&a=1.1&dropped=on")
    expect(page.locator("canvas.nodes")).to_be_visible()
    dropped = next(n for n in tree.nodes if n.outcome == "outranked" and n.step == 1)

    # A click on a node brings its numbers, its reason and its attention.
    click(page, dropped)
    expect(page.get_by_text(f"Step 2: {dropped.token}")).to_be_visible()
    expect(page.get_by_text("Dropped:")).to_be_visible()
    table = page.get_by_test_id("stTable")
    expect(table).to_contain_text(signed(dropped.total, 3))
    expect(table).to_contain_text(signed(dropped.score, 3))
    lenses = page.locator(".lens")
    expect(lenses.locator("canvas.cells")).to_have_count(2)
    expect(lenses.locator(".query-title")).to_have_text(["query", "query"])  # a row is not higher
    expect(page).to_have_url(re.compile(f"a={re.escape(name_of(dropped))}&b=none"))

    # A second one, with shift, brings the comparison.
    kept = next(n for n in tree.nodes if n.fate == "kept" and n.step == 2)
    click(page, kept, modifiers=["Shift"])
    both = compare(tree, dropped.index, kept.index)
    parting = f"They share {both.shared} token" if both.shared else "They share 0 tokens"
    expect(page.get_by_text(parting)).to_be_visible()
    lanes = page.locator(".branches .token")
    expect(lanes).to_have_count(len(both.a) + len(both.b) - both.shared)
    expect(page).to_have_url(re.compile(f"b={re.escape(name_of(kept))}&.*panel=compare"))
    assert page.locator(".branches b, .tree b").count() == 0

    # Arrows move A; Escape lets B go.
    until_idle(page)
    page.locator(".tree .view").focus()
    page.keyboard.press("ArrowLeft")
    parent = tree.node(dropped.parent)
    expect(page).to_have_url(re.compile(f"a={re.escape(name_of(parent))}&"))
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("b=none"))
    expect(page.locator(".tree .readout")).to_contain_text(f"Step 1, rank {parent.rank + 1}:")

    # What was dropped can be hidden, and the link says so.
    shown = len(tree.nodes)
    expect(page.locator("canvas.nodes")).to_have_attribute("data-painted", str(shown))
    page.keyboard.press("d")
    kept_nodes = sum(node.fate != "dropped" for node in tree.nodes)
    expect(page.locator("canvas.nodes")).to_have_attribute("data-painted", str(kept_nodes))
    expect(page).to_have_url(re.compile("dropped=off"))
