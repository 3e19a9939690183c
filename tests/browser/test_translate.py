"""The app in a real browser: a sentence is typed, translated, and looked into."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from figures.labels import query_labels
from figures.palette import Theme, attention_table
from tests.browser.waiting import (
    OpenPage,
    eventually,
    note,
    noted,
    starting_with,
    texts,
    until_idle,
    until_passes,
    until_the_url_says,
)
from tests.servers import serving
from transformer.catalogue import list_entries
from transformer.text.tokenizer import clean
from transformer.translator import Translator
from transformer.types import Floats
from ui.core import url_state
from ui.work.roots import checkpoints_root

ENTRIES = {entry.name: entry for entry in list_entries([checkpoints_root()])}
REVERSE = "reverse-toy"


def trace(checkpoint: str, sentence: str):  # type: ignore[no-untyped-def]
    return Translator.load(ENTRIES[checkpoint].path, device="cpu").trace(sentence)


def player_is_ready(page: Page) -> None:
    expect(page.locator(".player .count")).to_contain_text("step")


def type_and_translate(page: Page, sentence: str) -> None:
    until_idle(page)  # a run that is not over yet may still set the field
    page.locator("textarea").fill(sentence)
    page.get_by_role("button", name="Translate", exact=True).click()


def until_the_matrix_shows(page: Page, theme: Theme, weights: Floats) -> None:
    def check() -> None:
        np.testing.assert_allclose(heatmap(page, theme, weights.shape), weights, atol=0.01)

    until_passes(page, check)


def heatmap(page: Page, theme: Theme, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The weights that the matrix on screen shows, read back from its pixels. Returns: [T, S]."""
    pixels = page.locator("canvas.matrix").evaluate(
        """(canvas, [rows, columns]) => {
            const { left, top, w, h } = JSON.parse(canvas.dataset.frame);
            const ratio = window.devicePixelRatio || 1;
            const ctx = canvas.getContext("2d");
            const found = [];
            for (let t = 0; t < rows; t += 1) {
                for (let s = 0; s < columns; s += 1) {
                    const x = Math.round((left + (s + 0.5) * w) * ratio);
                    const y = Math.round((top + (t + 0.5) * h) * ratio);
                    found.push([...ctx.getImageData(x, y, 1, 1).data.slice(0, 3)]);
                }
            }
            return found;
        }""",
        list(shape),
    )
    table = attention_table(theme).astype(int)
    distance = np.abs(np.array(pixels)[:, None, :] - table[None, :, :]).sum(axis=2)
    assert distance.min(axis=1).max() <= 2  # every colour is one of the scale's
    return (distance.argmin(axis=1).reshape(shape) / 255) ** 2


def test_a_typed_sentence_gives_the_right_translation_and_heatmap(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}")
    player_is_ready(page)
    type_and_translate(page, "headlight")
    expect(page.locator(".st-key-headline")).to_have_text("thgildaeh")
    expected = trace(REVERSE, "headlight")
    expect(page.locator(".player .count")).to_have_text(
        f"step 1 of {len(expected.predicted_tokens)}"
    )
    chips = page.locator(".player button.chip")
    eventually(page, lambda: texts(chips), list(expected.predicted_tokens))
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
    for told in (f"{expected.cross[1, 0, t, s]:.4f}", expected.src_tokens[s],
                 expected.predicted_tokens[t]):  # fmt: skip
        expect(tip).to_contain_text(told)


def point_at_matrix(matrix: Locator, row: int, column: int) -> None:
    """Point at a cell of a player's matrix, counted from 0."""
    matrix.scroll_into_view_if_needed()
    frame = matrix.evaluate("canvas => JSON.parse(canvas.dataset.frame)")
    x, y = frame["left"] + (column + 0.5) * frame["w"], frame["top"] + (row + 0.5) * frame["h"]
    matrix.hover(position={"x": x, "y": y})


def test_the_first_screen_needs_no_scrolling_and_translates(app: str, open_page: OpenPage) -> None:
    page = open_page(app)
    player_is_ready(page)
    expect(page.get_by_role("link", name="Translate")).to_have_attribute("aria-current", "page")
    until_idle(page)
    until_passes(page, lambda: check_first_screen(page))
    sentence = "The cat sat on the mat because it was tired."
    type_and_translate(page, sentence)
    expect(page.locator(".st-key-source")).to_have_text(sentence)
    name = parse_qs(urlsplit(until_the_url_says(page, sentence=sentence)).query)["checkpoint"][0]
    expect(page.locator(".st-key-headline")).to_have_text(trace(name, sentence).text)


def check_first_screen(page: Page) -> None:
    assert 0 < page.locator(".player button.chip").count() <= 18
    box = page.locator("canvas.matrix").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 720
    assert box["x"] + box["width"] <= 1280
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_long_texts_can_be_scrolled_to_their_first_line(app: str, open_page: OpenPage) -> None:
    long = "abcdefgh" * 40
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence={long}&target={long}")
    player_is_ready(page)
    for place in (".st-key-source", ".st-key-headline_long"):
        text = page.locator(f"{place} [data-testid=stText]")
        until_passes(page, lambda text=text: check_scrolling(text))


def check_scrolling(text: Locator) -> None:
    above, hidden = text.evaluate(
        """text => {
            text.scrollTop = 0;
            const [box, inner] = [text, text.firstElementChild].map(
                (each) => each.getBoundingClientRect(),
            );
            return [box.top - inner.top, text.scrollHeight - text.clientHeight];
        }"""
    )
    assert hidden > 0  # there is something to scroll to
    assert above <= 1


def test_keys_buttons_and_tokens_step_and_the_link_reopens_the_view(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abcdef")
    player_is_ready(page)
    until_idle(page)
    steps = len(trace(REVERSE, "abcdef").predicted_tokens)

    def stands_at(step: int, page: Page = page) -> None:
        expect(page.locator(".player .count")).to_have_text(f"step {step} of {steps}")

    for _ in range(4):
        page.keyboard.press("ArrowRight")  # nothing is focused: the player takes arrows anyway
    stands_at(5)
    page.keyboard.press("ArrowLeft")
    stands_at(4)
    page.locator(".player").focus()
    page.keyboard.press("End")
    stands_at(steps)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    stands_at(steps - 1)  # there was nothing to the right of the end
    page.keyboard.press("Home")
    stands_at(1)
    page.get_by_role("button", name="One step forward").click()
    stands_at(2)
    page.locator(".player button.chip").nth(2).click()
    stands_at(3)
    page.get_by_label("Decoding step").fill("4")
    stands_at(4)
    page.get_by_role("button", name="Layer 1").click()
    page.get_by_role("button", name="Head 2").click()
    again = open_page(
        until_the_url_says(page, step="4", layer="1", head="2", sentence="abcdef", beam="4")
    )
    stands_at(4, again)
    for name in ("Layer 1", "Head 2"):
        button = again.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-pressed", "true")

    # Playing runs to the end and stops.
    until_idle(again)
    again.get_by_label("Decoding step").fill(str(steps - 2))
    player = again.locator(".player")
    note(player, "button.main", "aria-label")
    again.get_by_role("button", name="Play").click()
    stands_at(steps, again)
    playing = ["Play (space)", "Pause (space)", "Play (space)"]
    eventually(again, lambda: noted(player), playing)
    until_the_url_says(again, step=str(steps))


#: Counts what is moved by the script of a component.
COUNT_MOVES = """() => {
    window.moves = 0;
    const animate = Element.prototype.animate;
    Element.prototype.animate = function (...how) {
        window.moves += 1;
        return animate.apply(this, how);
    };
}"""


def test_a_row_says_what_it_reads_and_predicts_and_the_output_drops_into_the_input(
    app: str, open_page: OpenPage
) -> None:
    step = 3
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abcdef&step={step}&shifted=on")
    label = query_labels(trace(REVERSE, "abcdef"), "cross")[step - 1]
    reads, predicts = label.split(" → ")
    player, now = page.locator(".player"), page.locator(".position.now")
    expect(player.locator("[aria-live]")).to_contain_text(f"Step {step}: {label},")
    point_at_matrix(player.locator("canvas.matrix"), step - 1, 1)
    expect(player.locator(".tip")).to_contain_text(f"query {step} {label}")
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
        expect(now).to_have_attribute("aria-label", starting_with(f"{at}: "))
    assert page.evaluate("window.moves") == 0
    opener.press("Enter")
    expect(page.locator(".shift")).to_be_hidden()


def test_back_brings_the_earlier_view(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abc")
    player_is_ready(page)
    until_idle(page)
    page.get_by_role("button", name="Head 1").click()
    until_the_url_says(page, head="1")
    page.wait_for_timeout(1000 * url_state._SETTLING + 500)  # earlier addresses may be late ones
    page.go_back()
    until_the_url_says(page, head="mean")
    pressed = page.get_by_role("button", name="Head mean")
    expect(pressed).to_have_attribute("aria-pressed", "true")


HOSTILE = [
    "<script>window.hit = 1</script> **bold** $x^2$ :red[y] [link](javascript:window.hit=1)",
    "<img src=x onerror='window.hit = 1'> שלום \u202e עולם 🐕 \x07",
]


def test_hostile_text_is_shown_and_not_run_and_too_long_a_sentence_is_refused(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence={quote(HOSTILE[1])}")
    player_is_ready(page)
    for sentence in (HOSTILE[1], HOSTILE[0]):  # in the link, and typed
        if sentence == HOSTILE[0]:
            type_and_translate(page, sentence)
        expect(page.locator(".st-key-source")).to_have_text(clean(sentence))
        expect(page.get_by_test_id("stAlert")).to_be_visible()
        assert page.evaluate("window.hit") is None
        assert page.locator("[data-testid=stMain] img, [data-testid=stMain] script").count() == 0
        expect(page.get_by_test_id("stException")).to_have_count(0)
    type_and_translate(page, "a" * 10_000)
    # The last sentence's warning stays until the run that refuses this one ends.
    refusal = page.get_by_test_id("stAlert").filter(has_text="at most 512 are allowed")
    expect(refusal).to_be_visible()
    type_and_translate(page, "abc")
    expect(page.locator(".st-key-headline")).to_have_text("cba")
    expect(page.get_by_test_id("stAlert")).to_have_count(0)


def test_the_name_of_a_pages_file_opens_it_on_a_fresh_server(
    tmp_path: Path, spare_port: int, open_page: OpenPage
) -> None:
    with serving(tmp_path / "log.txt", port=spare_port) as (fresh, _):
        page = open_page(f"{fresh}/translate_page?checkpoint={REVERSE}&sentence=abc")
        expect(page.locator("textarea")).to_have_value("abc")
        expect(page.locator(".st-key-headline")).to_have_text("cba")
        page.get_by_role("link", name="Glossary").click()
        page.wait_for_url("**/glossary?**sentence=abc**")
        expect(page.get_by_role("textbox", name="Find a word")).to_be_visible()


def test_the_file_name_and_the_title_of_a_page_open_it_once_there_are_visitors(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence=abcd")
    player_is_ready(page)  # the server is not fresh any more
    for path, title in (("attention_page", "Attention"), ("inside-a-head", "Inside a head")):
        page.goto(f"{app}/{path}?checkpoint={REVERSE}&sentence=abc")
        expect(page.locator("textarea")).to_have_value("abc")
        expect(page.get_by_role("link", name=title)).to_have_attribute("aria-current", "page")
        expect(page.get_by_role("dialog")).to_have_count(0)
