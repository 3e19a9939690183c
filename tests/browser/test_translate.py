import re
from urllib.parse import quote

import numpy as np
from playwright.sync_api import Locator, Page, expect

from figures.labels import plain_token, query_labels
from figures.palette import Theme, attention_table, weight_levels
from tests.browser import waiting
from tests.browser.pixels import pixels
from tests.browser.waiting import OpenPage, eventually, until_idle, until_passes, until_the_url_says
from tests.shipped import TRANSLATORS
from transformer.models.catalogue import list_entries
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats
from ui.core.examples import examples_for
from ui.work.roots import checkpoints_root

ENTRIES = {entry.name: entry for entry in list_entries([checkpoints_root()])}
REVERSE = "reverse-toy"


def trace_of(checkpoint: str, sentence: str) -> Trace:
    return Translator.load(ENTRIES[checkpoint].path, device="cpu").trace(sentence)


def player_is_ready(page: Page) -> None:
    expect(page.locator(".player .count")).to_contain_text("step")


def until_the_matrix_shows(page: Page, theme: Theme, weights: Floats) -> None:
    until_passes(page, lambda: check_matrix(page, theme, weights))


def check_matrix(page: Page, theme: Theme, weights: Floats) -> None:
    canvas, (n, m) = page.locator("canvas.matrix"), weights.shape
    at = canvas.evaluate("canvas => JSON.parse(canvas.dataset.frame)")
    rows = np.rint(at["top"] + (np.arange(n) + 0.5) * at["h"]).astype(int)
    columns = np.rint(at["left"] + (np.arange(m) + 0.5) * at["w"]).astype(int)
    drawn = pixels(canvas)[np.ix_(rows, columns)].astype(int)
    wanted = attention_table(theme)[weight_levels(weights)].astype(int)
    np.testing.assert_allclose(drawn, wanted, atol=3)  # weights travel rounded


def test_a_typed_sentence_gives_translation_and_heatmap(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}")
    player_is_ready(page)
    until_idle(page)  # a run that is not over yet may still set the field
    page.locator("textarea").fill("headlight")
    page.get_by_role("button", name="Reverse", exact=True).click()
    expect(page.locator(".st-key-headline [translate=no][lang='']")).to_have_text("thgildaeh")
    expected = trace_of(REVERSE, "headlight")
    expect(page.locator(".player .count")).to_have_text(
        f"step 1 of {len(expected.predicted_tokens)}"
    )
    chips = page.locator(".player button.chip")
    written = [plain_token(token) for token in expected.predicted_tokens]
    eventually(page, lambda: waiting.texts(chips), written)
    page.get_by_role("button", name="mean over all heads").click()
    mean = expected.cross.mean(axis=(0, 1))
    until_the_matrix_shows(page, "light", mean)
    page.emulate_media(color_scheme="dark")
    until_the_matrix_shows(page, "dark", mean)
    # One head of one layer, chosen in the browser.
    page.get_by_role("button", name="Layer 2").click()
    page.get_by_role("button", name="Head 1").click()
    until_the_matrix_shows(page, "dark", expected.cross[1, 0])
    # Every letter of the word is looked for from right to left: the anti-diagonal.
    looked_at = expected.cross[1].max(axis=0)[1:-1].argmax(axis=1)
    assert np.corrcoef(looked_at, np.arange(len(looked_at)))[0, 1] < -0.8

    # The cell under the pointer tells its exact weight.
    t, s = 3, 4
    until_idle(page)
    point_at_matrix(page.locator("canvas.matrix"), t, s)
    tip = page.locator(".player .tip")
    expect(tip).to_be_visible()
    for told in (f"{expected.cross[1, 0, t, s]:.2%}", expected.src_tokens[s],
                 expected.predicted_tokens[t]):  # fmt: skip
        expect(tip).to_contain_text(told)


def point_at_matrix(matrix: Locator, row: int, column: int) -> None:
    matrix.scroll_into_view_if_needed()
    frame = matrix.evaluate("canvas => JSON.parse(canvas.dataset.frame)")
    x, y = frame["left"] + (column + 0.5) * frame["w"], frame["top"] + (row + 0.5) * frame["h"]
    matrix.hover(position={"x": x, "y": y})


def test_the_first_screen_fits_and_long_texts_scroll(app: str, open_page: OpenPage) -> None:
    page = open_page(app)
    player_is_ready(page)
    expect(page.get_by_role("link", name="Translate")).to_have_attribute("aria-current", "page")
    until_idle(page)
    until_passes(page, lambda: check_first_screen(page))
    long = "abcdefgh" * 40
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence={long}&target={long}", anew=True)
    player_is_ready(page)
    text = page.locator(".st-key-headline_long p")
    until_passes(page, lambda: check_scrolling(text))
    expect(page.locator(".st-key-source")).to_have_text(f"{long[:139]}…")


def check_first_screen(page: Page) -> None:
    assert 0 < page.locator(".player button.chip").count() <= 18
    box = page.locator("canvas.matrix").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 720 and box["x"] + box["width"] <= 1280
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def check_scrolling(text: Locator) -> None:
    above, hidden = text.evaluate(
        """text => {
            text.scrollTop = 0;
            const top = (each) => each.getBoundingClientRect().top, content = new Range();
            content.selectNodeContents(text);
            return [top(text) - top(content), text.scrollHeight - text.clientHeight];
        }"""
    )
    assert hidden > 0 and above <= 1


def test_keys_and_buttons_step_and_links_reopen_the_view(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abcdef")
    player_is_ready(page)
    until_idle(page)
    steps = len(trace_of(REVERSE, "abcdef").predicted_tokens)

    def stands_at(step: int, page: Page = page) -> None:
        expect(page.locator(".player .count")).to_have_text(f"step {step} of {steps}")

    # Nothing is focused: the player takes arrows anyway. Beyond its ends is nothing.
    for keys, step in (("Right " * 4, 5), ("Left", 4), ("Right " * 9 + "Left", steps - 1)):
        for key in keys.split():
            page.keyboard.press(f"Arrow{key}")
        stands_at(step)
    page.locator(".player").focus()
    for key, step in (("End", steps), ("Home", 1)):
        page.keyboard.press(key)
        stands_at(step)
    page.get_by_role("button", name="One step forward").click()
    stands_at(2)
    page.locator(".player button.chip").nth(2).click()
    stands_at(3)
    page.get_by_label("Decoding step").fill("4")
    stands_at(4)
    page.get_by_role("button", name="Layer 1").click()
    page.get_by_role("button", name="Head 2").click()
    address = until_the_url_says(page, step="4", layer="1", head="2", sentence="abcdef", beam="4")
    page.get_by_role("button", name="Head mean").click()
    until_the_url_says(page, head="mean")
    page.go_back()
    until_the_url_says(page, head="2")
    chosen = page.get_by_role("button", name="Head 2")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    page = open_page(address, anew=True)
    stands_at(4, page)
    for name in ("Layer 1", "Head 2"):
        expect(page.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")

    # Playing runs to the end and stops.
    until_idle(page)
    page.get_by_label("Decoding step").fill(str(steps - 2))
    player = page.locator(".player")
    waiting.note(player, "button.main", "aria-label")
    page.get_by_role("button", name="Play").click()
    stands_at(steps, page)
    eventually(
        page, lambda: waiting.noted(player), ["Play (space)", "Pause (space)", "Play (space)"]
    )
    until_the_url_says(page, step=str(steps))


#: Counts what is moved by the script of a component.
COUNT_MOVES = """() => {
    window.moves = 0;
    const animate = Element.prototype.animate;
    Element.prototype.animate = function (...how) {
        window.moves += 1;
        return animate.apply(this, how);
    };
}"""


def test_a_row_predicts_and_its_output_becomes_an_input(app: str, open_page: OpenPage) -> None:
    step = 3
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abcdef&step={step}&shifted=on")
    label = query_labels(trace_of(REVERSE, "abcdef"), "cross")[step - 1]
    reads, predicts = label.split(" → ")
    player, now = page.locator(".player"), page.locator(".position.now")
    expect(player.locator("[aria-live]")).to_contain_text(f"Step {step}: {label},")
    point_at_matrix(player.locator("canvas.matrix"), step - 1, 1)
    expect(player.locator(".tip")).to_contain_text(f"“{reads}” reads “")
    expect(now).to_have_attribute("aria-label", f"{step}: {label}")
    expect(now.locator(".output")).to_have_text(predicts)
    # What is read was written one step before: shifted right.
    expect(page.locator(".position .output").nth(step - 2)).to_have_text(reads)
    opener = page.get_by_role("button", name="shifted right")
    page.evaluate(COUNT_MOVES)
    opener.press("ArrowRight")
    eventually(page, lambda: page.evaluate("window.moves > 0"), True)  # it drops into its place
    expect(page.locator(".position.now .input")).to_have_text(predicts)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("window.moves = 0")
    for key, at in (("ArrowLeft", step), ("ArrowRight", step + 1)):
        opener.press(key)
        expect(now).to_have_attribute("aria-label", waiting.starting_with(f"{at}: "))
    assert page.evaluate("window.moves") == 0
    opener.press("Enter")
    expect(page.locator(".shift")).to_be_hidden()


#: A model of words, whose sentences leave room for another choice.
WORDS = next(name for name in TRANSLATORS if name != REVERSE)
SENTENCE = examples_for(WORDS).items[2].sentence


def check_step(page: Page, trace: Trace, step: int) -> None:
    """The lanes have weights above 0.05 below their tokens."""
    maps = {"Source": trace.cross[1, 2], "Target": trace.decoder_self.mean(axis=(0, 1))}
    for lane, weights in maps.items():
        written = page.get_by_role("list", name=f"{lane} tokens").locator(".weight")
        found = np.array([float(text or 0) for text in written.all_inner_texts()])
        row = np.pad(weights[step - 1], (0, lane == "Target"))
        np.testing.assert_allclose(found, np.where(row < 0.05, 0, row), atol=0.0051)
    facts = page.locator(".player .facts").inner_text().replace("−", "-")
    said = re.search(r"entropy (\S+) bit\s+log p so far (\S+)", facts)
    assert said is not None, facts
    expected = [trace.entropy[step - 1] / np.log(2), trace.log_probs[:step].sum()]
    np.testing.assert_allclose([float(each) for each in said.groups()], expected, atol=0.0051)


def test_each_step_shows_both_attentions_and_candidates(app: str, open_page: OpenPage) -> None:
    translator = Translator.load(ENTRIES[WORDS].path, device="cpu")
    page = open_page(
        f"{app}/?checkpoint={WORDS}&sentence={quote(SENTENCE)}&step=1&kind=cross&layer=2&head=3"
    )
    player_is_ready(page)
    trace = free = translator.trace(SENTENCE)
    page.locator(".player").focus()
    for step in (1, 2, 3, 4):
        expect(page.locator(".player .count")).to_contain_text(f"step {step} of")
        until_passes(page, lambda step=step: check_step(page, trace, step))
        page.keyboard.press("ArrowRight")
    recorded = page.locator(".player .badge")
    expect(recorded.locator("span")).not_to_be_visible()
    recorded.get_by_text("How it was recorded").click()
    expect(recorded).to_contain_text("Recorded live; a second pass agrees to 0.0000")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Play (space)")).to_be_visible()

    # Another candidate of step 2: decoding goes on from there.
    page.locator(".player").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    other = next(int(token) for token in free.top_ids[1] if token != free.predicted_ids[1])
    name = translator.tokenizer.id_to_piece(other)
    page.get_by_role("button", name=f"Take {name} instead").click()
    prefix = (free.predicted_ids[0], other)
    expected = translator.trace(SENTENCE, prefix=prefix)
    expect(page.locator(".st-key-headline")).to_have_text(expected.text)
    expect(page.locator(".player .chip.given")).to_have_count(2)
    chips = page.locator(".player button.chip")
    written = [plain_token(token) for token in expected.predicted_tokens]
    eventually(page, lambda: waiting.texts(chips), written)
    expect(page.locator(".player .count")).to_contain_text("step 2 of")
    until_the_url_says(page, prefix=".".join(map(str, prefix)), step="2")
    page.locator(".player .undo").click()  # beside the candidates
    expect(page.locator(".st-key-headline")).to_have_text(free.text)
    expect(page.locator(".player .chip.given")).to_have_count(0)
    expect(page.locator(".player .undo")).not_to_be_visible()


def test_a_cell_of_the_layers_is_read_and_a_bar_opens_it(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abcd&view=layers")
    cells, said = page.locator(".layers tbody td"), page.locator(".layers .readout")
    expect(page.get_by_text("Translations from each encoder layer")).to_be_visible()
    until_idle(page)  # a run draws the table anew
    cells.nth(5).hover()  # the second step, after the last layer
    expect(said).to_contain_text("After layer 2, step 2 (_ → d): d with 100%")
    page.locator(".layers .scroller").focus()
    page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text("After layer 1, step 2")
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("After layer 1, step 3")
    page.get_by_text("Why X, not Y").click()
    bar = page.locator("[aria-roledescription=bar][aria-label*=head]").first
    expect(bar).to_be_visible()
    until_idle(page)
    named = re.search(
        r"(self|cross)-attention layer (\d), head (\d)", bar.get_attribute("aria-label")
    )
    bar.click()
    kind = {"self": "decoder_self", "cross": "cross"}[named[1]]
    until_the_url_says(page, kind=kind, layer=named[2], head=named[3])
    expect(page.locator(".stages")).to_be_visible()
