"""Pages of the gallery in a browser without a network, from a folder."""

import base64
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from headlight.gallery import VIEWS, Worked, read_sentences, write_gallery
from tests.browser.chromium import FLAGS, find_or_install
from tests.browser.live import ROOT, translator
from tests.browser.test_accessibility import FINDINGS
from tests.browser.test_console import AXE
from tests.browser.waiting import eventually
from tests.messages import inflate, unpack
from tests.waiting import wait_until
from transformer.models.arrays.trace_file import save_arrays
from transformer.types import ATTENTION_KINDS

CAPTION = "A dog runs on the beach."
WORKED = (
    Worked(CAPTION, "multi30k-en-de", text="A dog.", question="Where?", answer="On a beach."),
    Worked("abc", "reverse-toy", views=("player", "grid", "tree"), edits=("off cross.1.2",)),
    Worked("The cat sleeps.", "t5-en-de", views=("player",)),
)
PAGES = [one.name for one in WORKED]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    front = write_gallery(folder, WORKED).read_text("utf-8")
    assert 'data-component="plan"' in front and all(f'"{name}.html"' in front for name in PAGES)
    return folder


@pytest.fixture(scope="module")
def offline(browser: Browser) -> Iterator[BrowserContext]:
    """A window without a network; the browser has its compilers, as the box computes."""
    fast = browser.browser_type.launch(executable_path=find_or_install(), args=FLAGS)
    window = fast.new_context(offline=True, viewport={"width": 1280, "height": 720})
    window.set_default_timeout(120_000)
    yield window
    fast.close()


@pytest.fixture
def tab(offline: BrowserContext) -> Iterator[Page]:
    page, wrong = offline.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:", "blob:"))
        else wrong.append(asked.url),
    )  # fmt: skip
    yield page
    page.close()
    assert wrong == []


def opened(tab: Page, site: Path, name: str, query: str = "") -> Page:
    tab.goto((site / f"{name}.html").as_uri() + query)
    tab.wait_for_selector("html[data-ready]")
    return tab


def translate(tab: Page, sentence: str) -> str:
    tab.get_by_label("Your own sentence").fill(sentence)
    tab.get_by_role("button", name="Translate", exact=True).click()
    settled(tab)
    return tab.get_by_role("status").first.inner_text()


def settled(tab: Page) -> None:
    tab.wait_for_selector(".live-says.done, .live-says.wrong")
    tab.wait_for_selector('form.live[aria-busy="false"]')


def alike(ours: Any, theirs: Any, at: str) -> None:
    """Assert that two headers agree, numbers to what the browser's arithmetic allows."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), at
        for name in ours.keys() - {"origin", "difference"}:
            alike(ours[name], theirs[name], f"{at}.{name}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), at
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            alike(one, other, f"{at}[{index}]")
    elif isinstance(ours, float):
        assert abs(ours - theirs) <= 2e-3 * max(1, abs(ours)), at
    else:
        assert ours == theirs, at


def numbers(component: str, header: Any, body: bytes) -> Iterator[np.ndarray]:
    """Yield the arrays of a message."""
    if component == "player":
        yield np.frombuffer(body, "<u2") / 65535
    elif component == "grid":
        for *_, size in header["kinds"]:
            about, maps = inflate(body[:size])
            body = body[size:]
            n = (len(about["row_names"]) - 1) * (len(about["column_names"]) - 1)
            single = n * about["queries"] * about["keys"]
            yield np.frombuffer(maps[:single], np.uint8) / 255
            yield np.frombuffer(maps[single:], np.int8) / 255
    elif component == "plan":
        words, at = np.frombuffer(body, "<i2"), 0
        for _, shape, scales in header["arrays"]:
            size = int(np.prod(shape))
            part, at = words[at : at + size].reshape(shape), at + size
            if scales and size:
                yield part * np.reshape(scales, (-1, *[1] * (len(shape) - 1)))
    elif component == "lines":
        yield np.frombuffer(body, "<u4") // 64  # its count, or key and weight
    elif component == "parts":
        yield np.frombuffer(body[: 4 * 5 * len(header["tokens"]) ** 2], "<f4")
    elif body:
        yield np.frombuffer(body, "<f4")


def test_every_view_of_a_typed_sentence_is_the_one_of_python(tab: Page, site: Path) -> None:
    """The browser's messages for the page's own sentence, beside those that Python wrote."""
    script = site / "files" / "views.js"
    wrapped = script.read_text()
    bare = wrapped.removeprefix("(() => {\n").removesuffix("\n})();")
    try:
        script.write_text(bare)
        opened(tab, site, PAGES[0])
        assert "Ein Hund rennt am Strand." in translate(tab, CAPTION)
        pairs = json.loads(
            tab.evaluate(
                "JSON.stringify(views.map(({ name, message, data }) => "
                "[name, [...bytesOf(message)], [...data]]))"
            )
        )
    finally:
        script.write_text(wrapped)
    assert [name for name, *_ in pairs] == [
        "player", "grid", "lens", "lines", "stages", "tree", "plan", "parts",
    ]  # fmt: skip
    for name, *messages in pairs:
        (ours, first), (theirs, second) = (unpack(bytes(message)) for message in messages)
        arrays = [[*numbers(name, *part)] for part in ((ours, first), (theirs, second))]
        if name == "plan":  # the browser does not read parts with the output matrix
            for header in (ours, theirs):
                header["arrays"] = [array[0] for array in header["arrays"]]
                del header["words"]
            del arrays[0][-2:]
        if name == "grid":
            ours["kinds"], theirs["kinds"] = ([kind[:3] for kind in header["kinds"]]
                                              for header in (ours, theirs))  # fmt: skip
        alike(ours, theirs, name)
        for one, other in zip(*arrays, strict=True):
            assert one.shape == other.shape, name
            assert np.abs(one - other).max() <= 5e-3 * max(1, np.abs(one).max()), name


def test_the_arrays_on_a_page_are_those_of_the_file(site: Path, tmp_path: Path) -> None:
    trace = translator("multi30k-en-de").trace(CAPTION)
    stored = np.load(save_arrays(trace, tmp_path / "one.npz"))
    text = (site / f"{PAGES[0]}.html").read_text()
    header, body = unpack(base64.b64decode(text.partition('id="trace">')[2].partition("<")[0]))
    for kind, shape in header["maps"]:
        size = 4 * int(np.prod(shape))
        assert np.array_equal(np.frombuffer(body[:size], "<f4").reshape(shape), stored[kind])
        body = body[size:]
    assert body == b"" and [kind for kind, _ in header["maps"]] == list(ATTENTION_KINDS)
    for name in ("src_tokens", "predicted_tokens", "predicted_ids"):
        assert header[name] == stored[name].tolist()


def test_a_head_is_switched_on_the_grid(tab: Page, site: Path) -> None:
    opened(tab, site, PAGES[1])
    grid = tab.locator('.view[data-component="grid"]')
    assert grid.get_by_title("Bring back").count() >= 1
    grid.get_by_title("Bring back").first.click(force=True)
    settled(tab)
    assert tab.get_by_role("status").first.inner_text() == "cba"
    assert grid.get_by_title("Bring back").count() == 0
    grid.get_by_title("Take out").first.click(force=True)
    settled(tab)
    edited = translator("reverse-toy").trace("abc", edits="off cross.1.1")
    assert tab.get_by_role("status").first.inner_text() == edited.text


def test_what_cannot_be_translated_is_said_in_a_line(tab: Page, site: Path) -> None:
    opened(tab, site, PAGES[1])
    assert translate(tab, "\u200b") == "Type a sentence first."
    assert translate(tab, "abcd") == "dcba"
    assert tab.locator("h1").inner_text() == "abcd"
    opened(tab, site, PAGES[2])
    assert tab.locator("form").count() == 0  # a model that only Python computes


def test_a_view_alone_tells_its_frame_how_high_it_is(tab: Page, site: Path) -> None:
    frame = site / "slides.html"
    text = opened(tab, site, PAGES[0]).locator("textarea.frame").input_value()
    assert text.startswith(f'<iframe src="{(site / PAGES[0]).as_uri()}.html?embed=player"')
    frame.write_text(text)
    tab.goto(frame.as_uri())
    inner = tab.frame_locator("iframe")
    inner.locator('.view[data-component="player"]').wait_for()
    height_of = "Number(document.querySelector('iframe').height)"
    assert wait_until(lambda: tab.evaluate(height_of) not in (0, 620))
    assert inner.locator(".views > .view:visible").count() == 1
    assert inner.locator("form:visible, nav:visible, footer:visible").count() == 0
    height = tab.evaluate(height_of)
    assert abs(inner.locator("body").evaluate("(body) => body.scrollHeight") - height) < 2
    frame.unlink()


KINDS = ["index.html", *(f"{name}.html" for name in PAGES), f"{PAGES[0]}.html?embed=player"]


@pytest.mark.parametrize("name", KINDS)
def test_a_page_reads_well_everywhere(tab: Page, site: Path, name: str) -> None:
    reads_well(tab, f"{site.as_uri()}/{name}")


def reads_well(tab: Page, address: str) -> None:
    """Without a finding of axe in both themes, on a phone, by keyboard, and on paper."""
    tab.emulate_media(media="screen")
    tab.goto(address)
    tab.wait_for_selector("html[data-ready]")
    tab.evaluate(AXE)
    for theme in ("light", "dark"):
        tab.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        find = FINDINGS.replace("resultTypes", "preload: false, resultTypes")
        eventually(tab, partial(tab.evaluate, find), [])  # once the views have the theme's colours
    tab.set_viewport_size({"width": 320, "height": 640})
    assert wait_until(lambda: tab.evaluate("document.documentElement.scrollWidth") <= 320)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.matches('a, input, .view')")
    tab.emulate_media(media="print")
    assert not tab.locator("form.live").is_visible()
    tab.set_viewport_size({"width": 1280, "height": 720})


def test_the_gallerys_sentences_are_complete() -> None:
    worked = read_sentences(ROOT / "headlight" / "gallery.toml")
    assert len(worked) >= 40 and len({one.name for one in worked}) == len(worked)
    assert {view for one in worked for view in one.views} == {*VIEWS}
    for one in worked:
        assert one.topic and one.title and one.question and one.answer
        assert (ROOT / "checkpoints" / one.checkpoint.partition("@")[0]).is_dir()
        ends = sum(one.text.count(end) for end in (". ", "? ", ": ", "! ")) + 1
        assert ends >= 5, one.title
