import json
import math
import re
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import waiting
from tests.browser.waiting import OpenPage, eventually, until_idle, until_passes, until_the_url_says
from transformer.measures.beam import Node, beam_tree, compare
from transformer.measures.heads import divided, spread
from transformer.trace.inspection import inspect_head, split_logits
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats

#: Marked up, right to left, combining, an emoji, a ligature, and 200 letters without a space.
STRANGE = f"The <b>cat</b> שלום e\u0301\u0323 🐕 ﬁne {'x' * 200}"


def name_of(node: Node) -> str:
    return f"{node.step + 1}.{node.rank + 1}"


def click(page: Page, node: Node, **options: object) -> None:
    """Scroll to a node of the tree and click it."""
    canvas = page.locator("canvas.nodes")
    expect(canvas).to_have_attribute("data-places", re.compile(f'"{name_of(node)}":'))
    until_idle(page)
    places = json.loads(canvas.get_attribute("data-places") or "{}")
    x, y = places[name_of(node)]
    canvas.click(position={"x": x, "y": y}, **options)  # type: ignore[arg-type]


def test_back_leads_to_the_page_before_at_once(open_page: OpenPage, address: str) -> None:
    page = open_page(f"{address}/attention?sentence={quote(waiting.SENTENCE)}")
    waiting.until_settled(page)
    page.get_by_test_id("stTopNavLink").filter(has_text="Lessons").click()
    waiting.until_at(page, "/tours")
    until_the_url_says(page, sentence=waiting.SENTENCE)
    page.go_back()
    waiting.until_at(page, "/attention")
    link = page.get_by_role("link", name="Attention", exact=True)
    expect(link).to_have_attribute("aria-current", "page")


def test_nodes_are_clicked_and_compared(open_page: OpenPage, address: str, trace: Trace) -> None:
    tree = beam_tree(trace)
    page = open_page(f"{address}/beam?sentence={quote(waiting.SENTENCE)}&a=1.1&dropped=on")
    expect(page.locator("canvas.nodes")).to_be_visible()
    dropped = next(n for n in tree.nodes if n.outcome == "outranked" and n.step == 1)

    # A click on a node brings its numbers, its reason and its attention.
    click(page, dropped)
    expect(page.get_by_text(f"Step 2: {dropped.token}")).to_be_visible()
    expect(page.get_by_text("Dropped:")).to_be_visible()
    lenses = page.locator(".lens")
    expect(lenses.locator("canvas.cells")).to_have_count(2)
    expect(lenses.locator(".query-title")).to_have_text(["query", "query"])  # a row is not higher
    expect(page).to_have_url(re.compile(f"a={re.escape(name_of(dropped))}&b=none"))

    # A second one, with shift, brings the comparison.
    kept = next(n for n in tree.nodes if n.fate == "kept" and n.step == 2)
    click(page, kept, modifiers=["Shift"])
    both = compare(tree, dropped.index, kept.index)
    expect(page.locator(".strip .token")).to_have_count(len(both.a) + len(both.b))
    expect(page.locator(".strip .parting")).to_have_count(2)
    expect(page).to_have_url(re.compile(f"b={re.escape(name_of(kept))}&.*panel=compare"))
    assert page.locator(".strip b, .tree b").count() == 0

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


def test_the_whole_model_keeps_its_choice_in_the_link_and_opens_pages(
    open_page: OpenPage, address: str, tiny_translator: Translator
) -> None:
    page = open_page(f"{address}/floor?sentence=A%20dog%20runs.&step=2&source=2", "dark")
    plan = page.locator(".plan")
    stream = tiny_translator.stream(tiny_translator.trace("A dog runs."))
    share = stream.decoder.shares[2, 2, 1]
    expect(plan.get_by_role("button", name="Decoder layer 3: Feed-forward")).to_have_attribute(
        "aria-label", re.compile(f"Adds {share:.0%} for")
    )
    until_idle(page)
    layer = re.compile(r"^Decoder layer 1\. Adds \d+% for .+\. Show its blocks\.$")
    plan.get_by_role("button", name=layer).click()
    expect(page).to_have_url(re.compile("focus=decoder.1"))
    plan.get_by_role("group", name="Source tokens").get_by_role("button").nth(2).click()
    expect(page).to_have_url(re.compile("source=3"))
    # The picture ends inside the window.
    end = plan.locator(".stage").evaluate("stage => stage.getBoundingClientRect().bottom")
    assert end < 720
    plan.get_by_role("button", name="Decoder layer 1: Cross-attention").click()
    plan.get_by_role("button", name="Follow the token through head 1.2").click()
    expect(page).to_have_url(re.compile("focus=decoder.1.cross.2"))
    # A head that is out changes the translation everywhere; Undo is above.
    plan.get_by_role("switch", name="head 1.2").click()
    expect(page).to_have_url(re.compile("edit=off"))
    expect(plan.get_by_role("switch", name="head 1.2")).to_have_attribute("aria-checked", "false")
    plan.get_by_role("switch", name="head 1.2").click()
    expect(page).not_to_have_url(re.compile("edit=off"))
    until_idle(page)
    plan.get_by_role("button", name="Open as a page").click()
    expect(page).to_have_url(re.compile("/head.*layer=1"))
    for name, chosen in (("Layer", "Layer 1"), ("Head", "Head 2")):
        expect(page.get_by_role("combobox", name=name, exact=True)).to_have_value(chosen)


def text_of(value: float) -> str:
    size = abs(value)
    if size != 0 and size < 0.0005:
        mantissa, power = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", "−")
    return f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3}f}".replace("-", "−")


def test_a_key_is_followed_through_all_stages(
    open_page: OpenPage, address: str, tiny_translator: Translator, trace: Trace
) -> None:
    stages = inspect_head(tiny_translator.model, trace, "cross", 1, 2, 1)
    query = f"sentence={quote(waiting.SENTENCE)}&kind=cross&layer=2&head=3&query=2&key=1"
    page = open_page(f"{address}/head?{query}", "dark")
    view = page.locator(".stages")
    expect(view.locator("section.stage")).to_have_count(8)
    expect(view.locator("canvas")).to_have_count(7)  # cross-attention has no mask to draw
    expect(view.locator("h3").first).to_be_in_viewport()
    expect(view.locator("h3").first).to_have_text("1  Three views of a token")
    expect(view.locator("math").first).to_be_visible()
    assert view.locator("b").count() == 0  # tokens are text

    def reads(stage: str, text: str) -> None:
        expect(view.locator(f".{stage} .readout")).to_contain_text(text)

    def is_the_models() -> bool:
        return float(str(view.get_attribute("data-apart"))) < 1e-6

    reads("dots", f"q · k = {text_of(float(stages.dots[0]))}")
    reads("softmax", f"weight {text_of(float(stages.scaled.weights[0]))}")
    until_idle(page)
    view.focus()
    page.keyboard.press("ArrowRight")
    reads("dots", f"q · k = {text_of(float(stages.dots[1]))}")
    reads("divide", f"= {text_of(float(stages.scaled.logits[1]))}")
    expect(page).to_have_url(re.compile("[?&]key=2"))

    canvas = view.locator(".dots canvas")
    expect(canvas).to_be_visible()
    width = waiting.at_rest(
        page, lambda: canvas.evaluate("canvas => canvas.getBoundingClientRect().width")
    )
    left, columns = 4.6 * 14, len(stages.key_tokens)
    column = min(44.0, (width - left - 4.4 * 14) / columns)
    canvas.click(position={"x": left + 3.5 * column, "y": 40})
    expect(page).to_have_url(re.compile("[?&]key=4"))
    reads("softmax", f"weight {text_of(float(stages.scaled.weights[3]))}")

    # The divisor moves the softmax and nothing else.
    slider = view.get_by_role("slider", name="Divide q")
    eventually(page, is_the_models, True)
    tops = "all => all.map(each => each.getBoundingClientRect().top)"
    slider.scroll_into_view_if_needed()
    before = waiting.at_rest(page, lambda: view.locator("section.stage").evaluate_all(tops))
    slider.focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("scaling=1(&|$)"))
    expect(slider).to_be_focused()
    assert waiting.at_rest(page, lambda: view.locator("section.stage").evaluate_all(tops)) == before
    used = view.locator(".facts td.used")
    for row, value in enumerate(vars(spread(stages.unscaled.weights)).values()):
        expect(used.nth(row)).to_contain_text(text_of(value))
    reads("softmax", f"weight {text_of(float(stages.unscaled.weights[3]))}")
    length = text_of(float(np.linalg.norm(stages.unscaled.contribution)))
    reads("output", f"contribution {length}")

    root = math.sqrt(len(stages.q))
    box = waiting.at_rest(page, slider.bounding_box)
    assert box is not None
    y, width = box["y"] + box["height"] / 2, box["width"] - 16
    page.mouse.move(box["x"] + 8, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 8 + 0.75 * width, y, steps=4)

    def check_divisor() -> None:
        at = float(view.locator(".divide-by output").inner_text())
        assert root < at < 2 * root
        largest = text_of(float(divided(stages.dots, stages.mask, at).max()))
        assert used.nth(1).inner_text().strip() == largest

    until_passes(page, check_divisor)
    # Near the model's own a drag stays on it, and the address says nothing of it.
    page.mouse.move(box["x"] + 8 + width * ((root - 1) / (2 * root - 1) + 0.02), y, steps=4)
    expect(view.locator(".divide-by output")).to_contain_text("as the model does")
    page.mouse.up()
    expect(page).not_to_have_url(re.compile("scaling"))
    eventually(page, is_the_models, True)
    waiting.until_it_fits(page)


def test_a_tree_is_read_with_pointer_and_keys(open_page: OpenPage, app: str) -> None:
    page = open_page(
        f"{app}/parsing?opening=0&checkpoint=parsing-gum&sentence=The%20old%20cat%20sat."
    )
    tree, panel = page.locator(".parse svg"), page.locator(".parse .panel")
    expect(tree.locator(".word text")).to_have_text(["The", "old", "cat", "sat", ".", "</s>"])
    whole = tree.get_by_role("button", name="“The old cat sat .”").first
    whole.hover()
    expect(panel.locator("p.of")).to_have_text("“The old cat sat .”")
    expect(panel.locator(".looks tr")).to_have_count(5)
    whole.focus()
    page.keyboard.press("ArrowUp")  # nothing is above
    expect(panel.locator("p.of")).to_have_text("“The old cat sat .”")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(panel.locator("p.of")).not_to_have_text("“The old cat sat .”")
    expect(tree.locator("[aria-pressed=true]")).to_be_focused()
    held = tree.locator(".node").evaluate_all(
        "all => all.findIndex((each) => each.getAttribute('aria-pressed') === 'true')"
    )
    until_the_url_says(page, node=str(held + 1))  # the node before it is said first


def test_a_phrase_that_may_be_wrong_looks_so(open_page: OpenPage, app: str) -> None:
    sentence = "I saw the man with the telescope that my aunt bought in Rome last year."
    page = open_page(f"{app}/parsing?opening=0&checkpoint=parsing-gum&sentence={sentence}")
    phrases = page.locator(".parse .node:not(.tag)")
    expect(phrases.first).to_be_visible()
    found = phrases.evaluate_all(
        "all => all.map((each) => [each.getAttribute('aria-label').split(', ').at(-1),"
        " each.querySelector('.sure')?.textContent ?? ''])"
    )
    assert all(
        spoken == written if written else int(spoken[:-1]) >= 90 for spoken, written in found
    )
    doubtful = sum(int(spoken[:-1]) < 50 for spoken, _ in found[1:])
    assert doubtful and page.locator(".parse path.unsure").count() == doubtful


def test_the_split_is_a_sum(open_page: OpenPage, address: str, tiny_translator: Translator) -> None:
    query = "sentence=A%20dog%20runs.&part=model&head=2&split=decoder"
    page = open_page(f"{address}/positions?{query}", "dark")
    view = page.locator(".parts")
    expect(view.locator("canvas")).to_have_count(5)
    until_idle(page)
    view.press("ArrowDown")
    split = split_logits(
        tiny_translator.model, tiny_translator.trace("A dog runs."), "decoder_self", 1
    )
    readout = view.locator(".readout")
    expect(readout).to_contain_text("” reads “")
    expect(readout).to_contain_text(f"= {text_of(float(split.logits[1, 0]))}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text("cannot read")


def test_a_piece_is_followed_to_its_vectors(open_page: OpenPage, address: str, root: Path) -> None:
    model = Translator.load(root / "words", device="cpu")
    ids = model.read(STRANGE).ids
    page = open_page(f"{address}/tokens?checkpoint=words&beam=1&sentence={quote(STRANGE)}", "dark")
    pieces = page.locator(".cut .piece")
    expect(pieces).to_have_count(len(ids))
    expect(pieces.locator(".id")).to_have_text(list(map(str, ids)))
    strange = page.locator(".cut .piece.byte")
    expect(strange).to_have_count(sum(index in model.tokenizer.byte_ids for index in ids))
    expect(page.locator(".cut .changed")).to_contain_text("ﬁ → fi")
    assert page.locator(".cut b, .cut script").count() == 0
    expect(page.locator(".stVegaLiteChart canvas, .stVegaLiteChart svg")).to_have_count(3)

    # A piece is followed: everything below speaks of it, and the link holds it.
    until_idle(page)
    third = pieces.nth(2)
    third.click()
    expect(third).to_have_attribute("aria-pressed", "true")
    until_the_url_says(page, token=str(ids[2]))
    expect(page.get_by_text(f"id {ids[2]}.")).to_be_visible()
    until_idle(page)
    third.press("ArrowRight")
    page.keyboard.press("Enter")
    until_the_url_says(page, token=str(ids[3]))
    expect(page.get_by_text(f"id {ids[3]}.")).to_be_visible()
    until_idle(page)
    expect(pieces.nth(3)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(pieces.nth(4)).to_be_focused()

    page.locator(".cut .row").nth(1).click()
    until_the_url_says(page, cut="2")
    expect(page.get_by_text("From split 2:")).to_be_visible()
    waiting.until_it_fits(page)


SENTENCE = "The <b>cat</b> sat."


@pytest.fixture(scope="module")
def sides(root: Path) -> tuple[Trace, Trace]:
    left, right = (
        Translator.load(root / name, "cpu").trace(SENTENCE, beam_size=1)
        for name in ("tiny", "wide")
    )
    return left, right


def test_pair_is_subtracted(open_anew: OpenPage, address: str, sides: tuple[Trace, Trace]) -> None:
    page = open_anew(address_of(address, "heads", kind="encoder_self"), "dark")
    table = page.locator(".match")
    expect(table.locator(".readout")).to_contain_text("Shown:")
    # The last head of the left beside the last of the right, by mouse.
    canvas = table.locator("canvas.cells")
    box = waiting.at_rest(page, canvas.bounding_box)
    assert box and page.locator(".strip b").count() == 0  # tokens are text
    canvas.click(position={"x": box["width"] - 4, "y": box["height"] - 4})
    until_the_url_says(page, layer="2", head="3", other_layer="1", other_head="5")
    expect(table.locator(".readout")).to_contain_text("2.3 and B wide 1.5")
    expect(page.get_by_text("B · Encoder self-attention, layer 1, head 5")).to_be_visible()

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
    cells = waiting.at_rest(page, lens.locator("canvas.cells").bounding_box)
    assert cells and cells["y"] < 450  # what is compared is on the first screen
    lens_says(page, wanted, "ArrowRight")
    expect(lens.locator(".scale")).to_contain_text("A looks more")
    waiting.until_it_fits(page)


def lens_says(page: Page, wanted: Floats, *keys: str) -> None:
    """Move with keys to a cell, and expect its signed difference."""
    page.locator(".lens .plot").focus()
    for key in keys:
        page.keyboard.press(key)
    value = wanted[keys.count("ArrowDown"), keys.count("ArrowRight")]
    said = f": {'−' if value < 0 else '+'}{abs(value):.4f}"
    expect(page.locator(".lens .readout")).to_contain_text(said)


@pytest.fixture
def open_anew(open_page: OpenPage) -> OpenPage:
    """Reopen a page, so that no topic keeps settings missing from the address."""
    return partial(open_page, anew=True)


def address_of(address: str, topic: str, **more: str) -> str:
    query = {"checkpoint": "tiny", "other": "wide", "beam": "1", "sentence": SENTENCE} | more
    return f"{address}/compare?" + urlencode(query | {"topic": topic})


def test_players_step_alike(open_anew: OpenPage, address: str, sides: tuple[Trace, Trace]) -> None:
    page = open_anew(address_of(address, "steps", step="1"), "dark")
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


def test_a_node_of_one_tree_and_what_was_dropped_in_both(open_anew: OpenPage, address: str) -> None:
    page = open_anew(address_of(address, "beam", beam="3"), "light")
    trees = page.locator(".tree canvas.nodes")
    expect(trees).to_have_count(2)

    def painted() -> list[int]:
        return [int(str(each.get_attribute("data-painted"))) for each in trees.all()]

    before = waiting.at_rest(page, painted)
    page.locator(".tree").nth(0).get_by_text(re.compile(r"Show \d+ dropped")).click()
    until_the_url_says(page, dropped="on")
    expect(page.locator(".tree").get_by_text(re.compile("Hide"))).to_have_count(2)
    eventually(page, lambda: bool(np.greater(painted(), before).all()), True)
    right = trees.nth(1)
    places = json.loads(waiting.at_rest(page, lambda: right.get_attribute("data-places")) or "{}")
    # The tree may be scrolled: a node in sight.
    name, (x, y) = next(
        (name, at) for name, at in places.items() if name.endswith(".2") and 20 < at[0] < 380
    )
    right.click(position={"x": x, "y": y})
    until_the_url_says(page, node_b=name)
    expect(page.get_by_text(f"B · step {name.split('.')[0]}:")).to_be_visible()


def test_columns_of_models_stand_below_each_other(open_page: OpenPage, app: str) -> None:
    page = open_page(f"{app}/models?checkpoint=everyday-en-de", anew=True)
    columns = page.locator("[class*=st-key-model_row_] [data-testid=stColumn]")
    expect(columns.nth(29)).to_be_attached()
    lefts = columns.evaluate_all("all => all.map((each) => each.getBoundingClientRect().left)")
    assert len({round(left) for left in lefts}) == 3  # "In use" is wider than "Use"


def test_a_tree_opens_with_its_last_step_in_sight(open_page: OpenPage, app: str) -> None:
    sentence = "The%20animal%20did%20not%20cross%20the%20street%20because%20it%20was%20tired."
    page = open_page(f"{app}/beam?opening=0&checkpoint=everyday-en-de&sentence={sentence}")
    view = page.locator(".tree .view")
    expect(view.locator("canvas.nodes")).to_have_attribute("data-places", re.compile('"9.1"'))
    assert view.evaluate("view => view.scrollWidth - view.clientWidth") <= 1
