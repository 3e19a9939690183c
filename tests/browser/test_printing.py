"""Every page on paper: the page alone, its pictures whole, and no empty sheet."""

import re
import zlib
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext

from tests.browser.test_accessibility import MODELS, QUERY
from tests.browser.waiting import eventually, until_settled
from ui.frame.page import all_pages

#: A sheet of A4 between margins of 12 mm, in CSS pixels.
SHEET = {"width": 703, "height": 1032}

#: What is on paper and should not be, and pictures of which a part is hidden.
SPOILT = """() => {
    const all = (root) => [...root.querySelectorAll("*")]
        .flatMap((each) => [each, ...(each.shadowRoot ? all(each.shadowRoot) : [])]);
    const seen = all(document).filter((each) => each.checkVisibility());
    const frame = "[data-testid=stSidebar], [data-testid=stHeader], .st-key-keys";
    const box = (each) => each.getBoundingClientRect();
    const up = (each) => each.parentElement ?? each.getRootNode().host;
    const cut = (each) => {
        for (let at = up(each); at; at = up(at)) {
            const clips = getComputedStyle(at).overflow !== "visible" && at !== document.body;
            const [here, there] = [box(each), box(at)];
            const beyond = here.right > there.right + 1 || here.bottom > there.bottom + 1;
            if (clips && beyond) return at;
        }
        return null;
    };
    const pictures = seen.filter((each) => each.matches("canvas:not(.maps, .rays), svg.marks"));
    return [...seen.filter((each) => each.matches(frame)), ...pictures.filter(cut)]
        .map((each) => each.outerHTML.slice(0, 120));
}"""


def sheets(pdf: bytes) -> list[bytes]:
    """Return the drawing on each sheet of a PDF file that Chromium wrote."""
    streams = dict(re.findall(rb"(\d+) 0 obj\n<<[^>]*>> stream\n(.*?)\nendstream", pdf, re.DOTALL))
    found = re.findall(rb"/Type /Page\n.*?/Contents (\d+) 0 R", pdf, re.DOTALL)
    return [zlib.decompress(streams[number]) for number in found]


def test_every_page_is_printed_whole(app: str, window: BrowserContext) -> None:
    page = window.new_page()
    wrong: list[str] = []
    for spec in all_pages():
        page.emulate_media(color_scheme="light", media="screen")
        page.set_viewport_size({"width": 1280, "height": 720})
        given = {**QUERY, "checkpoint": MODELS.get(spec.path, QUERY["checkpoint"])}
        page.goto(f"{app}/{spec.path}?{urlencode(given)}")
        until_settled(page)
        drawn = sheets(page.pdf(format="A4", print_background=True))
        if not drawn or any(b"BT" not in sheet and b" Do" not in sheet for sheet in drawn):
            wrong.append(f"{spec.path}: an empty sheet among {len(drawn)}")
        page.emulate_media(media="print")
        page.set_viewport_size(SHEET)
        eventually(page, lambda: page.evaluate(SPOILT), [])
    page.close()
    assert not wrong
