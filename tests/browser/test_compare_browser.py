"""Compare in a real browser: a pair of heads is chosen and subtracted as the models say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from figures.compare import describe_difference
from tests.browser.waiting import (
    at_rest,
    eventually,
    until_idle,
    until_it_fits,
    until_passes,
    until_the_url_says,
)
from transformer.trace.records import Trace
from transformer.translator import Translator

OpenPage = Callable[..., Page]

pytestmark = pytest.mark.timeout(900)
SENTENCE = "The <b>cat</b> sat."

#: Layers and heads of the encoder on either side.
LEFT, RIGHT = (2, 3), (1, 5)


def test_a_pair_of_heads_is_chosen_and_subtracted(
    open_page: OpenPage, address: str, root: Path
) -> None:
    query = f"checkpoint=tiny&beam=1&sentence={quote(SENTENCE)}&kind=encoder_self&topic=heads"
    page = open_page(f"{address}/compare?{query}", "dark")
    table = page.locator(".match")
    expect(table.locator(".readout")).to_contain_text("Shown:", timeout=180_000)
    # The last head of the left beside the last of the right, by mouse.
    canvas = table.locator("canvas.cells")
    box = at_rest(page, canvas.bounding_box)
    assert box is not None
    assert page.locator(".strip b").count() == 0  # tokens are text
    canvas.click(position={"x": box["width"] - 4, "y": box["height"] - 4})
    until_the_url_says(page, layer="2", head="3", other_layer="1", other_head="5")
    expect(table.locator(".readout")).to_contain_text("2.3 and B wide 1.5")
    expect(page.get_by_text("B · Layer 1, head 5")).to_be_visible()

    # By keyboard, one to the left on the right side's axis.
    until_idle(page)
    table.locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]other_head=4"))

    # The difference of this very pair, cell by cell.
    page.get_by_test_id("stMain").get_by_text("Attention", exact=True).click()
    page.get_by_test_id("stMain").get_by_text("Difference", exact=True).click()
    expect(page.get_by_text("A − B: Layer 2, head 3 − Layer 1, head 4")).to_be_visible()
    left, right = (Translator.load(root / name, "cpu").trace(SENTENCE, beam_size=1)
                   for name in ("tiny", "wide"))  # fmt: skip
    wanted = left.encoder_self[1, 2] - right.encoder_self[0, 3]
    lens = page.locator(".lens")
    expect(lens).to_have_count(1)
    cells = at_rest(page, lens.locator("canvas.cells").bounding_box)
    assert cells is not None
    assert cells["y"] < 450  # what is compared is on the first screen
    lens.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    value = f"{abs(wanted[0, 1]):.4f}"
    sign = "−" if wanted[0, 1] < 0 else "+"
    expect(lens.locator(".readout")).to_contain_text(f": {sign}{value}")
    expect(lens.locator(".scale")).to_contain_text("A looks more")
    until_it_fits(page)


def traces(root: Path) -> tuple[Trace, Trace]:
    """Traces of both sides, decoded greedily."""
    left, right = (
        Translator.load(root / name, "cpu").trace(SENTENCE, beam_size=1)
        for name in ("tiny", "wide")
    )
    return left, right


def address_of(address: str, topic: str, **more: str) -> str:
    query = {"checkpoint": "tiny", "other": "wide", "beam": "1", "sentence": SENTENCE} | more
    return f"{address}/compare?" + urlencode(query | {"topic": topic})


def test_a_cell_of_the_differences_opens_large(
    open_page: OpenPage, address: str, root: Path
) -> None:
    page = open_page(
        address_of(address, "maps", beside="differences", kind="encoder_self"), "light"
    )
    grid = page.locator(".grid")
    expect(grid.get_by_role("gridcell")).to_have_count(
        (RIGHT[0] + 1) * (LEFT[1] + 1), timeout=180_000
    )
    expect(grid.locator(".scale")).to_contain_text("A looks more")
    expect(page.get_by_text("A 2 layers of 3 and B 1 layer of 5 heads")).to_be_visible()
    # Layer 1, head 2: a row holds three heads and their mean.
    grid.get_by_role("gridcell").nth(1).click()
    expect(page).to_have_url(re.compile(r"[?&]layer=1&head=2"))
    expect(page.get_by_text("A − B: Layer 1, head 2")).to_be_visible()
    left, right = traces(root)
    wanted = left.encoder_self[0, 1] - right.encoder_self[0, 1]
    lens = page.locator(".lens")
    expect(lens).to_have_count(1)
    until_idle(page)
    lens.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    sign = "−" if wanted[1, 1] < 0 else "+"
    expect(lens.locator(".readout")).to_contain_text(f": {sign}{abs(wanted[1, 1]):.4f}")
    said = describe_difference(wanted, left.src_tokens, left.src_tokens).split(";")[0]
    page.mouse.move(0, 0)  # the note is about a cell that is pointed at
    expect(grid.locator(".readout")).to_contain_text(said.split(",")[0])
    until_it_fits(page)


def test_players_step_together_as_far_as_both_go(
    open_page: OpenPage, address: str, root: Path
) -> None:
    page = open_page(address_of(address, "steps", step="1"), "dark")
    lengths = [len(trace.predicted_tokens) for trace in traces(root)]
    leader = page.locator(".player:not(.follower)")
    expect(leader).to_have_count(1, timeout=180_000)
    expect(page.locator(".player.follower").get_by_label("Play (space)")).to_be_hidden()
    until_passes(page, lambda: check_one_bar_reaches_across(page))
    leader.get_by_label("One step forward (right arrow)").click()
    count = leader.locator(".count")
    expect(count).to_have_text(f"A step 2 of {lengths[0]} · B step 2 of {lengths[1]}")
    expect(page).to_have_url(re.compile(r"[?&]step=2(&|$)"))
    leader.get_by_label("Last step (End)").click()
    shorter = min((0, 1), key=lambda side: lengths[side])
    if lengths[0] != lengths[1]:
        expect(count).to_contain_text(f"{'AB'[shorter]} ended after step {lengths[shorter]}")
    # Rows stand at one height although the two do not have as many heads and tokens.
    until_level(page, page.locator(".player .lower"))


def check_one_bar_reaches_across(page: Page) -> None:
    """One bar of controls for both players."""
    bar = page.locator(".player:not(.follower) .transport").bounding_box()
    boxes = [each.bounding_box() for each in page.locator(".player").all()]
    assert bar is not None and len(boxes) == 2
    assert all(
        box is not None
        and bar["x"] <= box["x"] + 1
        and box["x"] + box["width"] <= bar["x"] + bar["width"] + 1
        for box in boxes
    )


def until_level(page: Page, two: Locator) -> None:
    """Both begin at the same height."""
    tops = "all => all.map((each) => Math.round(each.getBoundingClientRect().top))"

    def check() -> None:
        left, right = two.evaluate_all(tops)
        assert left == right

    until_passes(page, check)


def test_a_node_of_one_tree_and_what_was_dropped_in_both(
    open_page: OpenPage, address: str, root: Path
) -> None:
    page = open_page(address_of(address, "beam", beam="3"), "light")
    trees = page.locator(".tree canvas.nodes")
    expect(trees).to_have_count(2, timeout=180_000)
    for side in (0, 1):
        expect(trees.nth(side)).to_have_attribute("data-painted", re.compile(r"^\d+$"))
    until_idle(page)
    painted = [int(each.get_attribute("data-painted") or 0) for each in trees.all()]
    page.locator(".tree").nth(0).get_by_text(re.compile(r"Show \d+ dropped")).click()
    expect(page).to_have_url(re.compile(r"[?&]dropped=on"))
    for side in (0, 1):
        expect(page.locator(".tree").nth(side).get_by_text(re.compile("Hide"))).to_be_visible()
    eventually(
        page,
        lambda: trees.evaluate_all(
            "(all, before) => all.map((each, i) => Number(each.dataset.painted) > before[i])",
            painted,
        ),
        [True, True],
    )
    right = trees.nth(1)
    places = json.loads(at_rest(page, lambda: right.get_attribute("data-places")) or "{}")
    # The tree may be scrolled: a node in sight.
    name, (x, y) = next(
        (name, at) for name, at in places.items() if name.endswith(".2") and 20 < at[0] < 380
    )
    right.click(position={"x": x, "y": y})
    expect(page).to_have_url(re.compile(rf"[?&]node_b={re.escape(name)}(&|$)"))
    expect(page.get_by_text(f"B · step {name.split('.')[0]}:")).to_be_visible()


def test_a_key_that_both_have_is_followed_in_both_heads(
    open_page: OpenPage, address: str, root: Path
) -> None:
    page = open_page(
        address_of(address, "head", kind="encoder_self", layer="1", head="2", query="2", key="1"),
        "dark",
    )
    stages = page.locator(".stages")
    expect(stages).to_have_count(2, timeout=180_000)
    until_idle(page)
    stages.nth(0).focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"[?&]key=2(&|$)"))
    for side, trace in enumerate(traces(root)):
        readout = stages.nth(side).locator(".stage.softmax .readout")
        expect(readout).to_contain_text("key 2")
        weight = float(trace.encoder_self[0, 1, 1, 1])

        def check(readout: Locator = readout, weight: float = weight) -> None:
            shown = float((readout.text_content() or "").split("weight ")[1].replace("−", "-"))
            assert shown == pytest.approx(weight, rel=0.1, abs=6e-4)

        until_passes(page, check)
    until_level(page, stages.locator(".stage.output"))
