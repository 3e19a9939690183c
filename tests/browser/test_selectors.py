import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.waiting import PATIENCE_MS, until_settled
from tests.forks import ROOT
from tests.servers import serving
from ui.tours.opening import COOKIE, SEEN

#: Pages and settings that have all the elements together; the later ones are special states.
VISITS: list[tuple[str, dict[str, str]]] = [
    *((page, {}) for page in ("", "beam", "attention", "head", "heads", "floor", "positions",
                              "removals", "training", "tours", "glossary", "models")),
    ("", {"sentence": "The animal didn't cross the street as it was tired, " * 4, "beam": "10"}),
    ("attention", {"sentence": " \u200b "}),
    ("parsing", {}), ("heads", {"role": "roles"}), ("attention", {"edit": "off cross.1.1"}),
    ("", {"checkpoint": "everyday-en-de@3000"}),
    ("", {"tour": "decoding", "stop": "1"}),
    ("", {"tour": "decoding", "stop": "5", "guess": "0"}),
    ("attention", {"display": "matrix", "edit": "off cross.1.1", "kind": "cross", "layer": "2",
                   "head": "1", "queries": "2", "keys": "3"}),
    ("compare", {"edit": "off cross.1.1", "present": "on"}), ("heads", {"present": "on"}),
    ("compare", {"scored": "on"}), ("attention", {"display": "against", "present": "on"}),
    ("", {"edit": "off cross.1.1"}), ("", {"present": "on"}), ("", {"lecture": "attention"}),
    ("removals", {"present": "on", "edit": "off cross.1.1"}),
    ("", {"tour": "positions", "stop": "1", "guess": "0"}),
]  # fmt: skip

#: Beside a server's first words, empty places and a bar may stand for less than a frame; a tooltip
#: needs a pointer. The classes in these selectors are checked on their own.
PASSING = re.compile(r"\.hides|^@page|stToast|vg-|stProg.*-starting|st-key-starting.*stEmpty")

#: Notes which of SELECTORS have matched, even if only for a moment of a run.
WATCH = """(() => {
    const matched = new Set(JSON.parse(sessionStorage.matched ?? "[]"));
    const finds = (selector) => {
        try { return document.querySelector(selector); } catch { return false; }  // it is invalid
    };
    new MutationObserver(() => {
        SELECTORS.filter((each) => !matched.has(each) && finds(each)).forEach(matched.add, matched);
        sessionStorage.matched = JSON.stringify([...matched]);
    }).observe(document, { subtree: true, childList: true });
})()"""


def selectors() -> dict[str, str]:
    """Return selectors, and test ids and classes in them, each with its file."""
    found: dict[str, str] = {}
    for path in (ROOT / "ui/platform").glob("*.css"):
        text = re.sub(r"/\*.*?\*/|@keyframes.*", "", path.read_text("utf-8"))
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for rule in re.findall(r"([^{};]+)\{[^{}]*\}", text):
            for selector in re.split(r",\s*(?![^(]*\)(?!:has\())", rule.strip()):
                found[re.sub(r"::?(before|after|focus-visible)", "", selector)] = path.name
    for path in (ROOT / "ui/platform").glob("*.js"):
        for names in re.findall(r'"(\[data-testid[^"]*)"', path.read_text("utf-8")):
            found |= dict.fromkeys(names.split(", "), path.name)
    parts = r"\[data-testid[^\]]*\]|\.st[A-Z]\w*|\.(?:katex|modebar)[\w-]*"
    return {part: file for name, file in found.items() for part in [name, *re.findall(parts, name)]}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 720}) as window:
        window.set_default_timeout(PATIENCE_MS)
        window.add_cookies([{"name": COOKIE, "value": SEEN, "url": "http://127.0.0.1"}])
        yield window.new_page()


def test_every_selector_matches_an_element(page: Page, tmp_path: Path) -> None:
    broken = tmp_path / "root" / "broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{}")
    roots = {"HEADLIGHT_CHECKPOINTS": f"{ROOT / 'checkpoints'}{os.pathsep}{broken.parent}"}
    wanted = selectors()
    files = {"style.css", "presenting.css", "lecture.css", "page.js", "translated.js"}
    assert files == {*wanted.values()} and len(wanted) > 130
    page.add_init_script(f"const SELECTORS = {json.dumps([*wanted])}; {WATCH}")
    # A server that has just started shows its first words while it loads libraries.
    with serving(tmp_path / "log", environment=roots, fresh=True) as (address, _):
        for path, settings in VISITS:
            query = {"sentence": "The cat sat on the mat.", **settings}
            page.goto(f"{address}/{path}?{urlencode(query)}")
            until_settled(page)
        page.set_viewport_size({"width": 390, "height": 720})
        page.goto(f"{address}/beam?sentence=A+dog.")
        page.get_by_test_id("stExpandSidebarButton").click()
        page.locator(".st-key-sentence_box textarea").fill("Another")
        page.get_by_test_id("stSidebarCollapseButton").locator("button").click()
        page.get_by_test_id("stMain").get_by_test_id("stPopover").first.locator("button").click()
        page.get_by_test_id("stPopoverBody").wait_for()
        page.keyboard.press("Escape")
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto(f"{address}/removals?sentence=A+dog.")
        page.get_by_test_id("stMain").get_by_role("combobox").first.click()
        page.get_by_role("option").first.wait_for()
        matched = page.evaluate("JSON.parse(sessionStorage.matched)")
    missing = [
        f"{file}: {name}" for name, file in wanted.items()
        if name not in matched and not PASSING.search(name)
    ]  # fmt: skip
    assert not missing, "\n".join(missing)
