"""The whole model's picture: its numbers, and what it does without a server."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from figures.exhibit import Exhibit, Series
from tests.tiny_models import CONFIGS, SENTENCES, random_model, tokenizer_of
from transformer.text.tokenizer import Tokenizer
from transformer.trace.inspection import inspect_head
from transformer.trace.records import Trace, Whole
from transformer.trace.whole import record_whole
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from ui.components import plan
from ui.components.plan import KINDS, Edited, PlanChoice, plan_component
from ui.export.html import to_html

SENTENCE = "The cat sat on the mat."
ROLES = {kind: (stack, "cross" if kind == "cross" else "self")
         for stack, kinds in KINDS.items() for kind in kinds}  # fmt: skip
#: The row of a head's table with this name, as numbers.
ROW = """(name) => [...document.querySelector(".view").shadowRoot
    .querySelectorAll(`.stages tr[data-part=${name}] td`)]
    .map((cell) => Number(cell.textContent.replace("\\u2212", "-")))"""
VIEW = "document.querySelector('.view').shadowRoot.querySelector('.plan').plan"
SMALL = ".band span, .token, .candidate bdi, .candidate .size, .part"
SIZES = "(all) => all.map((at) => parseFloat(getComputedStyle(at).fontSize))"
CUT = "(at) => at.scrollHeight - at.clientHeight + at.scrollWidth - at.clientWidth"


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    made = browser.new_page(viewport={"width": 1280, "height": 900}, offline=True)
    yield made
    made.close()


def opened(
    page: Page, path: Path, translator: Translator, trace: Trace, focus: str, **edited: Any
) -> Whole:
    """Open the picture without a server."""
    page.set_viewport_size({"width": edited.pop("width", 1280), "height": 900})
    whole = record_whole(translator.model, translator.tokenizer.target, trace)
    made = plan_component(
        whole, trace, translator.config, PlanChoice(1, 2, focus), Edited(**edited)
    )
    part = Series("steps", trace.tgt_tokens, {"log": trace.log_probs}, "token", "log", "bar")
    exhibit = Exhibit("plan", "The whole model", "", (part,), {}, offline=made.offline())
    path.write_bytes(to_html(exhibit))
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.ready > 0")
    return whole


@pytest.mark.parametrize("name", CONFIGS)
def test_numbers_are_those_of_the_trace(
    page: Page, tmp_path: Path, tiny_tokenizer: Tokenizer, name: str
) -> None:
    size = tiny_tokenizer.vocab_size
    config = CONFIGS[name].replace(vocab_size=size, tgt_vocab_size=None, max_positions=60)
    translator = Translator(random_model(config), tiny_tokenizer, device="cpu", name="random")
    trace = translator.trace(SENTENCE, target="Die Katze saß.")
    whole = opened(page, tmp_path / "plan.html", translator, trace, "decoder.1")
    expect(page.get_by_label("+ position")).to_have_count(2 * (config.positions != "relative"))
    rng = np.random.default_rng(1)
    for kind in ATTENTION_KINDS:
        stack, block = ROLES[kind]
        layer, head, query = (int(rng.integers(n)) for n in trace.attention(kind).shape[:3])
        stages = inspect_head(translator.model, trace, kind, layer, head, query)
        focus = f"{stack}.{layer + 1}.{block}.{head + 1}"
        field = "source" if stack == "encoder" else "row"
        page.evaluate(f"([field, at, focus]) => {VIEW}.choose({{ [field]: at, focus }})",
                      [field, query, focus])  # fmt: skip
        np.testing.assert_allclose(page.evaluate(ROW, "scores"), stages.dots, atol=0.06)
        np.testing.assert_allclose(page.evaluate(ROW, "scale"), stages.scaled.logits, atol=0.006)
        np.testing.assert_allclose(page.evaluate(ROW, "weights"), stages.scaled.weights, atol=0.006)
        made = page.evaluate(f"(place) => {VIEW}.data.head(...place)", [kind, layer, head, query])
        dots, output = ([*made[name].values()] if isinstance(made[name], dict) else made[name]
                        for name in ("dots", "output"))  # fmt: skip
        np.testing.assert_allclose(dots, stages.dots, rtol=1e-3, atol=2e-3)
        np.testing.assert_allclose(output, stages.scaled.output, rtol=1e-3, atol=1e-3)
        lengths = [np.linalg.norm(vector) for vector in (output, stages.scaled.contribution)]
        said = f"numbers, length {lengths[0]:.2f} → {lengths[1]:.2f}"
        expect(page.locator(".stages tr[data-part=adds] td")).to_contain_text(said)
        assert made["masked"] == (~stages.mask).tolist()
        # The stream before and after the block, and what it adds.
        of, step = whole.stream.stack(stack), 1 if block == "cross" else 0  # type: ignore[arg-type]
        added = page.evaluate(
            f"(place) => {{ const a = {VIEW}.data.added(...place);"
            " return [a.length, a.more, a.share, ...a.after.slice(0, 4)]; }",
            [int(stack == "decoder"), layer, block, query],
        )
        expected = [np.linalg.norm(of.before[layer, step, query]),
                    of.added_norms[layer, step, query], of.shares[layer, step, query],
                    *of.hidden[layer, step, query, :4]]  # fmt: skip
        np.testing.assert_allclose(added, expected, rtol=1e-3, atol=1e-3)
        given = page.evaluate(f"(place) => {VIEW}.data.added(...place)",
                              [int(stack == "decoder"), layer, None, query])  # fmt: skip
        np.testing.assert_allclose(given["share"], of.layer_shares[layer, query], atol=1e-3)


def test_the_picture_unfolds_folds_and_steps_with_keys(
    page: Page, tmp_path: Path, tiny_translator: Translator
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    whole = opened(page, tmp_path / "plan.html", tiny_translator, trace, "decoder.2")
    page.get_by_role("button", name="Encoder layer 1").first.hover()
    expect(page.locator(".card h3")).to_contain_text("Encoder layer 1")
    share = whole.stream.decoder.shares[1, 1, 2]
    cross = page.get_by_role("button", name="Decoder layer 2: Cross-attention")
    adds = f"Adds {share:.0%} for {trace.tgt_tokens[2]}.".replace("\u2581", "_")
    expect(cross).to_have_attribute("aria-label", f"Decoder layer 2: Cross-attention. {adds}")
    # At rest: the largest weight, each layer's guess, the mask, and the way to the next input.
    expect(cross).to_contain_text(f"{trace.cross[1, :, 2].mean(axis=0).max():.2f}")
    assert page.evaluate(f"{VIEW}.plan.loop.at(-1)[0] > {VIEW}.plan.stacks[1].at(2)")
    off = f"(at) => at.parentNode.offsetLeft + at.offsetLeft - {VIEW}.plan.loop[0][0]"
    assert -60 < page.locator(".candidate[aria-pressed=true]").evaluate(off) < 0  # left of it
    focused = "document.activeElement.shadowRoot.activeElement.dataset.id"
    stops = page.locator("button.band").evaluate_all("(all) => all.map((at) => at.dataset.id)")
    page.locator(".speed").focus()
    assert [page.keyboard.press("Tab") or page.evaluate(focused) for _ in stops] == stops
    assert len(stops) == 2 * (2 + 3) + (1 + 2) + 3  # blocks with Add & Norm, layers, and the ends
    for key in ["Shift+Tab"] * (len(stops) - 1 - stops.index("decoder.2.cross")) + ["Enter"]:
        page.keyboard.press(key)
    panel = page.locator(".unfolded")
    expect(panel.locator(".list tbody tr")).to_have_count(3)
    expect(panel.locator(".list tr").nth(2)).to_contain_text(f"{trace.cross[1, 1, 2].max():.2f}")
    panel.get_by_role("button", name="Follow the token through head 2.2").click()
    # A symbol of the formula lights its rows, and a row its symbol.
    page.locator(".formula .symbol.k").hover()
    expect(panel.locator("tr.k.lit")).to_have_count(1)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<strong>values</strong>')")
    page.get_by_text("values", exact=True).last.hover()  # of a text on the page
    expect(panel.locator("tr.v.lit")).to_have_count(2)
    panel.locator("tr.weights").hover()
    expect(page.locator(".symbol.lit")).to_have_text("softmax")
    page.keyboard.press("ArrowRight")  # in the row of heads
    assert page.evaluate(focused) == "head.2"
    panel.get_by_role("button", name="Fold").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".count")).to_have_text(f"step 4 of {len(trace.tgt_tokens)}")
    page.keyboard.press("Escape")
    expect(panel.locator(".list tbody tr")).to_have_count(3)
    expect(page.locator("button.band.layer")).to_have_count(1 + 2)  # beside a panel, too
    page.keyboard.press("Escape")
    assert (panel.is_hidden(), page.evaluate(focused)) == (True, "decoder.2.cross")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == "decoder.1.cross"
    page.get_by_role("button", name="Linear and softmax").click()
    rest = 1 - np.exp(trace.top_log_probs[3, :6]).sum()
    log = f"{trace.top_log_probs[3, 5]:.2f}".replace("-", "\u2212")
    rows = panel.locator("[data-part=candidates] tr").all_inner_texts()
    assert log in rows[-2] and f"{rest:.2%}" in rows[-1]
    page.evaluate(f"{VIEW}.root.style.cssText = '--hl-scale: 1.35; font-size: 18.9px'")
    page.evaluate(f"{VIEW}.unfold(null)")  # a class reads 15 px
    assert min(page.locator(SMALL).evaluate_all(SIZES)) >= 15


def test_the_film_writes_the_translation_word_by_word(
    page: Page, tmp_path: Path, tiny_translator: Translator
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    opened(page, tmp_path / "plan.html", tiny_translator, trace, "decoder.2")
    size = page.evaluate(f"{VIEW}.scale")
    page.locator(".band.block").first.hover()  # the text is the film's all the same
    page.keyboard.press("p")  # without a click
    expect(page.locator(".play")).to_have_text("Pause")
    assert page.evaluate(f"{VIEW}.scale") == size  # the type of the rest
    expect(page.locator(".card")).to_contain_text("looks most at")  # what this layer does
    # Pause freezes picture, heading, text and unwritten words; Play goes on from there.
    frozen = f"[{VIEW}.frames, {VIEW}.root.innerText]"
    page.locator(".play").click()
    state = page.evaluate(frozen)
    page.wait_for_timeout(300)
    assert page.evaluate(frozen) == state
    page.locator(".play").click()
    page.evaluate(f"{VIEW}.speed = 40")
    expect(page.locator(".word.coming").first).to_be_attached()
    expect(page.locator(".band.ahead").first).to_be_attached()  # numbers wait for the stream
    expect(page.locator(".play")).to_have_text("Play")
    expect(page.locator(".word.coming, .ahead")).to_have_count(0)
    n = len(trace.tgt_tokens)
    expect(page.locator(".count")).to_have_text(f"step {n} of {n}")
    page.locator(".play").click()
    page.get_by_role("button", name="Step back").click()  # leaves the film
    # Without motion, a press is a step.
    page.emulate_media(reduced_motion="reduce")
    page.locator(".play").click()
    expect(page.locator(".count")).to_have_text(f"step 2 of {n}")
    page.emulate_media(reduced_motion="no-preference")
    tokenizer = tokenizer_of("bytes")  # the line is the text that its tokens spell
    for text in (*SENTENCES, "Œuvre ☃, Ölgehörde"):
        pieces = tokenizer.shown(tokenizer.encode(text))
        page.evaluate(f"(now) => {{ {VIEW}.header.predicted = now; {VIEW}.draw(); }}", pieces)
        expect(page.locator(".translation")).to_have_text(text)


def test_words_that_an_edit_changed_are_marked(
    page: Page, tmp_path: Path, tiny_translator: Translator
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    tops, path = [[["", 0.14, int(top[0])]] for top in trace.top_ids], tmp_path / "plan.html"
    was = [*zip(trace.predicted_tokens, tops, strict=True)]
    opened(page, path, tiny_translator, trace, "softmax", before=was)
    expect(page.locator(".candidate .quiet")).to_have_text(["was 14%"])  # of others, none is known
    expect(page.locator(".card")).to_contain_text("from 14% to")
    edits = {"out": [("cross", 1, 0)], "cuts": [("cross", 1, 0, 2, 1)], "possible": True}
    was[0] = ("x", [])
    opened(page, path, tiny_translator, trace, "decoder.2.cross.1", before=was, **edits)
    expect(page.locator(".word.changed")).to_have_count(1)
    expect(page.locator(".translation s")).to_have_text("x")
    expect(page.get_by_role("switch", name="head 2.1")).to_have_attribute("aria-checked", "false")
    expect(page.locator(".key.cut")).to_have_count(1)
    page.locator(".key button").nth(1).click()
    expect(page.get_by_role("button", name=re.compile("^Show .* again"))).to_be_visible()
    page.locator(".translation button").click()
    expect(page.locator(".card")).to_contain_text("x stood here before the last change. Now")


@pytest.mark.parametrize("width", [390, 720, 1024, 1280, 1920])
def test_every_layer_says_what_it_adds_and_every_panel_is_whole(
    page: Page, tmp_path: Path, tiny_translator: Translator, width: int
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    whole = opened(page, tmp_path / "plan.html", tiny_translator, trace, "decoder.2", width=width)
    for stack, token in ((whole.stream.encoder, 1), (whole.stream.decoder, 2)):
        shares = stack.layer_shares[:, token]
        name = re.compile(f"L(ayer )?{shares.argmax() + 1}.*{shares.max():.0%}")
        expect(page.locator(".band").filter(has_text=name).first).to_be_visible()
    own = np.exp(whole.lens.log_probs[:, 2])  # the layer that decides has the accent
    expect(page.locator(".most")).to_contain_text(f"→ {own[np.diff(own).argmax() + 1]:.0%}")
    for focus in ("decoder.3.ffn", "encoder.1.ffn", "decoder.1.cross_norm", "encoder.embedding",
                  "softmax", "encoder.2.self", "decoder.3.cross", "decoder.3.cross.2"):  # fmt: skip
        page.evaluate(f"(focus) => {VIEW}.choose({{ focus }})", focus)
        expect(page.locator(".body > *").first).to_be_visible()
        assert page.locator(".body").evaluate(CUT) == 0, focus


def test_a_long_text_has_the_chosen_tokens_only(
    page: Page, tmp_path: Path, tiny_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    monkeypatch.setattr(plan, "MOST_BYTES", 1000)
    opened(page, tmp_path / "plan.html", tiny_translator, trace, "decoder.2.cross.1")
    expect(page.locator(".card")).to_contain_text("choosing a token is a request")
    np.testing.assert_allclose(page.evaluate(ROW, "weights"), trace.cross[1, 0, 2], atol=0.006)
    assert page.locator("tr.scores").count() == 0
