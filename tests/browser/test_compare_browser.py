"""Compare in a real browser: a pair of heads is chosen and subtracted as the models say."""

import json
import re
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import waiting
from tests.browser.waiting import OpenPage, at_rest, eventually, until_the_url_says
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats

SENTENCE = "The <b>cat</b> sat."


@pytest.fixture(scope="module")
def sides(root: Path) -> tuple[Trace, Trace]:
    """Traces of both sides, decoded greedily."""
    left, right = (
        Translator.load(root / name, "cpu").trace(SENTENCE, beam_size=1)
        for name in ("tiny", "wide")
    )
    return left, right


def test_pair_is_subtracted(open_page: OpenPage, address: str, sides: tuple[Trace, Trace]) -> None:
    page = open_page(address_of(address, "heads", kind="encoder_self"), "dark")
    table = page.locator(".match")
    expect(table.locator(".readout")).to_contain_text("Shown:")
    # The last head of the left beside the last of the right, by mouse.
    canvas = table.locator("canvas.cells")
    box = at_rest(page, canvas.bounding_box)
    assert box and page.locator(".strip b").count() == 0  # tokens are text
    canvas.click(position={"x": box["width"] - 4, "y": box["height"] - 4})
    until_the_url_says(page, layer="2", head="3", other_layer="1", other_head="5")
    expect(table.locator(".readout")).to_contain_text("2.3 and B wide 1.5")
    expect(page.get_by_text("B · Layer 1, head 5")).to_be_visible()

    # By keyboard, one to the left on the right side's axis.
    waiting.until_idle(page)
    table.locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    until_the_url_says(page, other_head="4")

    # The difference of this very pair, cell by cell.
    for box, name in (("View", "Attention"), ("Show", "Difference")):
        page.get_by_role("combobox", name=box).click()
        page.get_by_role("option", name=name, exact=True).click()
    expect(page.get_by_text("A − B: Layer 2, head 3 − Layer 1, head 4")).to_be_visible()
    left, right = sides
    wanted = left.encoder_self[1, 2] - right.encoder_self[0, 3]
    lens = page.locator(".lens")
    expect(lens).to_have_count(1)
    cells = at_rest(page, lens.locator("canvas.cells").bounding_box)
    assert cells and cells["y"] < 450  # what is compared is on the first screen
    lens_says(page, wanted, "ArrowRight")
    expect(lens.locator(".scale")).to_contain_text("A looks more")
    waiting.until_it_fits(page)


def lens_says(page: Page, wanted: Floats, *keys: str) -> None:
    """These keys lead to a cell whose difference is said with its sign."""
    page.locator(".lens .plot").focus()
    for key in keys:
        page.keyboard.press(key)
    value = wanted[keys.count("ArrowDown"), keys.count("ArrowRight")]
    said = f": {'−' if value < 0 else '+'}{abs(value):.4f}"
    expect(page.locator(".lens .readout")).to_contain_text(said)


@pytest.fixture
def open_page(open_page: OpenPage) -> OpenPage:
    """Open a page anew: its topics keep settings for each other that the address does not show."""
    return partial(open_page, anew=True)


def address_of(address: str, topic: str, **more: str) -> str:
    query = {"checkpoint": "tiny", "other": "wide", "beam": "1", "sentence": SENTENCE} | more
    return f"{address}/compare?" + urlencode(query | {"topic": topic})


def test_players_step_alike(open_page: OpenPage, address: str, sides: tuple[Trace, Trace]) -> None:
    page = open_page(address_of(address, "steps", step="1"), "dark")
    lengths = [len(trace.predicted_tokens) for trace in sides]
    leader = page.locator(".player:not(.follower)")
    expect(leader).to_have_count(1)
    expect(page.locator(".player.follower").get_by_label("Play (space)")).to_be_hidden()

    def check_bar() -> None:
        (bar,) = boxes(leader.locator(".transport"))
        left, right = boxes(page.locator(".player"))
        assert bar["left"] <= left["left"] + 1 and right["right"] <= bar["right"] + 1

    waiting.until_passes(page, check_bar)  # one for both
    leader.get_by_label("One step forward (right arrow)").click()
    count = leader.locator(".count")
    expect(count).to_have_text(f"A step 2 of {lengths[0]} · B step 2 of {lengths[1]}")
    until_the_url_says(page, step="2")
    leader.get_by_label("Last step (End)").click()
    if lengths[0] != lengths[1]:
        shorter = lengths.index(min(lengths))
        expect(count).to_contain_text(f"{'AB'[shorter]} ended after step {lengths[shorter]}")
    # Rows stand at one height although the two do not have as many heads and tokens.
    lower = page.locator(".player .lower")
    eventually(page, lambda: len({round(box["top"]) for box in boxes(lower)}), 1)


def boxes(found: Locator) -> list[dict[str, float]]:
    places: list[dict[str, float]] = found.evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect().toJSON())"
    )
    return places


def test_a_node_of_one_tree_and_what_was_dropped_in_both(open_page: OpenPage, address: str) -> None:
    page = open_page(address_of(address, "beam", beam="3"), "light")
    trees = page.locator(".tree canvas.nodes")
    expect(trees).to_have_count(2)

    def painted() -> list[int]:
        return [int(str(each.get_attribute("data-painted"))) for each in trees.all()]

    before = at_rest(page, painted)
    page.locator(".tree").nth(0).get_by_text(re.compile(r"Show \d+ dropped")).click()
    until_the_url_says(page, dropped="on")
    expect(page.locator(".tree").get_by_text(re.compile("Hide"))).to_have_count(2)
    eventually(page, lambda: bool(np.greater(painted(), before).all()), True)
    right = trees.nth(1)
    places = json.loads(at_rest(page, lambda: right.get_attribute("data-places")) or "{}")
    # The tree may be scrolled: a node in sight.
    name, (x, y) = next(
        (name, at) for name, at in places.items() if name.endswith(".2") and 20 < at[0] < 380
    )
    right.click(position={"x": x, "y": y})
    until_the_url_says(page, node_b=name)
    expect(page.get_by_text(f"B · step {name.split('.')[0]}:")).to_be_visible()
