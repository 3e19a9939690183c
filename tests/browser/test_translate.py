"""The app in a real browser: a sentence is typed, translated, and looked into."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from playwright.sync_api import Page, expect

from figures.palette import Theme, attention_table
from tests.servers import serving
from transformer.checkpoint.folder import list_checkpoints, load_checkpoint, save_checkpoint
from transformer.text.tokenizer import clean
from transformer.translator import Translator
from ui.work.roots import checkpoints_root

OpenPage = Callable[..., Page]
ENTRIES = {entry.name: entry for entry in list_checkpoints(checkpoints_root())}
REVERSE = "reverse-toy"


def trace(checkpoint: str, sentence: str):  # type: ignore[no-untyped-def]
    return Translator.load(ENTRIES[checkpoint].path, device="cpu").trace(sentence)


def player_is_ready(page: Page) -> None:
    expect(page.locator(".player .count")).to_contain_text("step")


def place(page: Page) -> str:
    return page.locator(".player .count").inner_text()


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def until_the_url_says(page: Page, **wanted: str) -> None:
    page.wait_for_function(
        """wanted => {
            const said = new URLSearchParams(location.search);
            return Object.entries(wanted).every(([name, value]) => said.get(name) === value);
        }""",
        arg=wanted,
    )


#: Whether the matrix shows another picture than this one.
REDRAWN = """before => [...document.querySelectorAll("*")].some((each) => {
    const canvas = each.shadowRoot?.querySelector("canvas.matrix");
    return canvas && canvas.toDataURL() !== before;
})"""


def type_and_translate(page: Page, sentence: str) -> None:
    page.locator("textarea").fill(sentence)
    page.get_by_test_id("stBaseButton-primaryFormSubmit").click()


def heatmap(page: Page, theme: Theme, shape: tuple[int, int]) -> NDArray[np.float64]:
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
    assert page.locator(".player button.chip").all_inner_texts() == list(expected.predicted_tokens)
    shape, mean = expected.cross.shape[2:], expected.cross.mean(axis=(0, 1))
    np.testing.assert_allclose(heatmap(page, "light", shape), mean, atol=0.01)
    light = page.locator("canvas.matrix").evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(REDRAWN, arg=light)
    np.testing.assert_allclose(heatmap(page, "dark", shape), mean, atol=0.01)
    # One head of one layer, chosen in the browser.
    page.get_by_role("button", name="Layer 2").click()
    page.get_by_role("button", name="Head 1").click()
    shown = heatmap(page, "dark", shape)
    np.testing.assert_allclose(shown, expected.cross[1, 0], atol=0.01)
    # Every letter of the word is looked for from right to left: the anti-diagonal.
    looked_at = expected.cross[1].max(axis=0)[1:-1].argmax(axis=1)
    assert np.corrcoef(looked_at, np.arange(len(looked_at)))[0, 1] < -0.8

    # The cell under the pointer tells its exact weight.
    t, s = 3, 4
    canvas = page.locator("canvas.matrix")
    frame = canvas.evaluate("canvas => JSON.parse(canvas.dataset.frame)")
    x, y = frame["left"] + (s + 0.5) * frame["w"], frame["top"] + (t + 0.5) * frame["h"]
    canvas.hover(position={"x": x, "y": y})
    tip = page.locator(".player .tip")
    expect(tip).to_be_visible()
    for told in (f"{expected.cross[1, 0, t, s]:.4f}", expected.src_tokens[s],
                 expected.predicted_tokens[t]):  # fmt: skip
        expect(tip).to_contain_text(told)


def test_the_first_screen_needs_no_scrolling_and_translates(app: str, open_page: OpenPage) -> None:
    page = open_page(app)
    player_is_ready(page)
    expect(page.get_by_role("link", name="Translate")).to_have_attribute("aria-current", "page")
    assert page.locator(".player button.chip").count() <= 18
    box = page.locator("canvas.matrix").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 720
    assert box["x"] + box["width"] <= 1280
    overflow = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not overflow
    sentence = "The cat sat on the mat because it was tired."
    type_and_translate(page, sentence)
    expect(page.locator(".st-key-source")).to_have_text(sentence)
    name = query(page)["checkpoint"]
    expect(page.locator(".st-key-headline")).to_have_text(trace(name, sentence).text)


def test_long_texts_can_be_scrolled_to_their_first_line(app: str, open_page: OpenPage) -> None:
    long = "abcdefgh" * 40
    page = open_page(f"{app}/?checkpoint={REVERSE}&sentence={long}&target={long}")
    player_is_ready(page)
    for place in (".st-key-source", ".st-key-headline_long"):
        text = page.locator(f"{place} [data-testid=stText]")
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
    steps = len(trace(REVERSE, "abcdef").predicted_tokens)
    for _ in range(4):
        page.keyboard.press("ArrowRight")  # nothing is focused: the player takes arrows anyway
    assert place(page) == f"step 5 of {steps}"
    page.keyboard.press("ArrowLeft")
    assert place(page) == f"step 4 of {steps}"
    page.locator(".player").focus()
    page.keyboard.press("End")
    assert place(page) == f"step {steps} of {steps}"
    page.keyboard.press("ArrowRight")
    assert place(page) == f"step {steps} of {steps}"
    page.keyboard.press("Home")
    assert place(page) == f"step 1 of {steps}"
    page.get_by_role("button", name="One step forward").click()
    assert place(page) == f"step 2 of {steps}"
    page.locator(".player button.chip").nth(2).click()
    assert place(page) == f"step 3 of {steps}"
    page.get_by_label("Decoding step").fill("4")
    assert place(page) == f"step 4 of {steps}"
    page.get_by_role("button", name="Layer 1").click()
    page.get_by_role("button", name="Head 2").click()
    until_the_url_says(page, step="4", layer="1", head="2", sentence="abcdef", beam="4")
    again = open_page(page.url)
    player_is_ready(again)
    assert place(again) == f"step 4 of {steps}"
    for name in ("Layer 1", "Head 2"):
        button = again.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-pressed", "true")

    # Playing runs to the end and stops.
    again.get_by_label("Decoding step").fill(str(steps - 2))
    again.get_by_role("button", name="Play").click()
    expect(again.get_by_role("button", name="Pause")).to_be_visible()
    expect(again.locator(".player .count")).to_have_text(f"step {steps} of {steps}")
    expect(again.get_by_role("button", name="Play")).to_be_visible()
    until_the_url_says(again, step=str(steps))


HOSTILE = [
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "**bold** $x^2$ :red[y] [link](javascript:window.hit=1)",
    "שלום \u202e עולם 🐕 \x07",
]


def test_hostile_text_is_shown_and_not_run_and_too_long_a_sentence_is_refused(
    app: str, open_page: OpenPage
) -> None:
    linked = open_page(f"{app}/?checkpoint={REVERSE}&sentence={quote(HOSTILE[1])}")
    player_is_ready(linked)
    page = open_page(f"{app}/?checkpoint={REVERSE}")
    player_is_ready(page)
    for sentence in HOSTILE:
        type_and_translate(page, sentence)
        expect(page.locator(".st-key-source")).to_have_text(clean(sentence))
        expect(page.get_by_test_id("stAlert")).to_be_visible()
    for each in (page, linked):
        assert each.evaluate("window.hit") is None
        assert each.locator("[data-testid=stMain] img, [data-testid=stMain] script").count() == 0
        assert each.get_by_test_id("stException").count() == 0
    type_and_translate(page, "a" * 10_000)
    # The last sentence's warning stays until the run that refuses this one ends.
    refusal = page.get_by_test_id("stAlert").filter(has_text="at most 512 are allowed")
    expect(refusal).to_be_visible()
    type_and_translate(page, "abc")
    expect(page.locator(".st-key-headline")).to_have_text("cba")
    assert page.get_by_test_id("stAlert").count() == 0


@pytest.fixture
def endless_app(tmp_path: Path, spare_port: int) -> Iterator[str]:
    """An app whose model never ends a sentence, beside one that is cut short on disk."""
    root = tmp_path / "root"
    checkpoint = load_checkpoint(ENTRIES[REVERSE].path)
    # Deep and narrow: hundreds of slow steps that take little memory.
    config = checkpoint.config.replace(
        n_heads=1, n_decoder_layers=80, output_bias=True, max_positions=512
    )
    torch.manual_seed(0)
    model = type(checkpoint.model)(config)
    with torch.no_grad():
        assert model.generator.bias is not None
        model.generator.bias[config.eos_id] = -1e4
    save_checkpoint(root / "endless", model, checkpoint.tokenizer)
    shutil.copytree(root / "endless", root / "cut")
    weights = root / "cut" / "model.safetensors"
    with weights.open("r+b") as file:
        file.truncate(weights.stat().st_size // 2)
    app = ("-m", "tests.browser.settled_app")
    with serving(tmp_path / "log.txt", app, checkpoints=root, port=spare_port) as (address, _):
        yield address


def test_long_work_shows_progress_and_can_be_stopped_and_back_brings_the_earlier_view(
    endless_app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{endless_app}/?sentence=abc&beam=1")
    player_is_ready(page)
    type_and_translate(page, "abcdefgh" * 60)
    expect(page.get_by_test_id("stProgress")).to_contain_text("Decoding: step")
    page.locator(".st-key-stop_work button").click()
    expect(page.get_by_test_id("stAlert")).to_have_text("stop_circleStopped.")
    assert page.locator(".player").count() == 0
    type_and_translate(page, "abc")
    player_is_ready(page)
    expect(page.get_by_test_id("stAlert")).to_contain_text("Cut at the length limit")
    page.get_by_text("1 checkpoint cannot be used").click()
    expect(page.get_by_text("cut/model.safetensors")).to_be_visible()

    page.get_by_role("button", name="Head 1").click()
    until_the_url_says(page, head="1")
    page.go_back()
    until_the_url_says(page, head="mean")
    pressed = page.get_by_role("button", name="Head mean")
    expect(pressed).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("path", ["translate_page", "attention_page", "attention"])
def test_an_address_opens_its_page_on_a_fresh_server(
    unvisited_app: str, open_page: OpenPage, path: str
) -> None:
    """Also that of a page's file; Streamlit's dialog that there is no such page does not stay."""
    page = open_page(f"{unvisited_app}/{path}?checkpoint={REVERSE}&sentence=abc")
    expect(page.get_by_role("link", name="Attention")).to_be_visible()
    expect(page.locator("textarea")).to_have_value("abc")
    if path == "translate_page":
        expect(page.locator(".st-key-headline")).to_have_text("cba")
    else:
        expect(page.get_by_role("grid").first).to_be_visible()
    if path == "attention":
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.wait_for_url("**/attention?**sentence=abc**")
    page.get_by_role("link", name="Glossary").click()
    page.wait_for_url("**/glossary?**sentence=abc**")
    expect(page.get_by_role("textbox", name="Find a word")).to_be_visible()
    assert page.get_by_test_id("stException").count() == 0


def test_the_file_name_of_a_page_opens_it_once_there_are_visitors(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(app)
    player_is_ready(page)  # the server is not fresh any more
    page.goto(f"{app}/attention_page?checkpoint={REVERSE}&sentence=abc")
    expect(page.locator("textarea")).to_have_value("abc")
    expect(page.get_by_role("link", name="Attention")).to_have_attribute("aria-current", "page")
    assert page.get_by_role("dialog").count() == 0
