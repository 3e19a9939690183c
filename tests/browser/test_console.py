from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, expect

from tests.browser.waiting import eventually, until_at, until_passes, until_settled
from ui.frame.page import DOORS, all_pages, entries_of
from ui.frame.page import Page as AppPage

QUERY = "checkpoint=everyday-en-de&beam=2&sentence=She was reading a book when I came home."

#: Deque's checker of what readers with a screen reader or a keyboard alone meet.
AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")

#: What axe finds serious or critical, and where.
SERIOUS = """async () => {
    const { violations } = await axe.run(%s, { resultTypes: ["violations"] });
    return violations.filter((each) => ["serious", "critical"].includes(each.impact))
        .flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)}`));
}"""

#: A theme, and width and height of the window.
Look = tuple[Literal["light", "dark"], int, int]

#: By how many pixels the page is wider than the window, and its main part than its place.
TOO_WIDE = """() => {
    const page = document.documentElement, main = document.querySelector("[data-testid=stMain]");
    return [page.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth];
}"""


#: What the keys' hint covers, and the frame's buttons that reach out of the window.
IN_THE_WAY = """() => {
    const box = (each) => each.getBoundingClientRect();
    const seen = (each) => each.checkVisibility() && box(each).width > 0;
    const found = [...document.querySelectorAll("[data-testid=stHeader] :is(a, button)")]
        .filter(seen);
    const out = found.filter((each) => box(each).left < 0 || box(each).right > innerWidth);
    const main = document.querySelector("[data-testid=stMainBlockContainer]");
    const keys = [...document.querySelectorAll(".st-key-keys *")].find((each) => each.shadowRoot);
    const hints = [...(keys?.shadowRoot.querySelectorAll(".hint, .link") ?? [])].filter(seen);
    if (!hints.length) return ["no hint"];
    const [first, last] = [box(hints[0]), box(hints.at(-1))];
    const at = { left: first.left, right: last.right, top: first.top, bottom: last.bottom };
    const shown = [...main.querySelectorAll("p, button, canvas, [data-testid=stElementContainer]")];
    const below = [...found, ...shown].filter((each) => seen(each)
        && !each.closest(".st-key-keys") && !each.querySelector(".st-key-keys")
        && box(each).left < at.right && box(each).right > at.left
        && box(each).top < at.bottom && box(each).bottom > at.top);
    return [...out, ...below].map((each) => each.outerHTML.slice(0, 120));
}"""

#: What a window spoils, and a script that notes for it what is written on a canvas: each text with
#: its size, middle, width and angle.
SPOILT = (Path(__file__).parent / "boxes.js").read_text("utf-8")
NOTE = """(() => {
    const { prototype: pen } = CanvasRenderingContext2D, { fillText, fillRect } = pen;
    pen.fillRect = function (x, y, w, h) { // may cover what was written
        const { a, d, e, f } = this.getTransform();
        this.canvas.written = this.canvas.written?.filter(([, , u, v, wide]) =>
            u + wide / 2 < a * x + e || u - wide / 2 > a * (x + w) + e
            || v < d * y + f || v > d * (y + h) + f);
        return fillRect.call(this, x, y, w, h);
    };
    pen.fillText = function (text, x, y, ...more) {
        const { a, b, c, d, e, f } = this.getTransform(), wide = this.measureText(text);
        const along = { center: 0, right: -0.5, end: -0.5 }[this.textAlign] ?? 0.5;
        const u = x + along * wide.width;
        const v = y + (wide.actualBoundingBoxDescent - wide.actualBoundingBoxAscent) / 2;
        const size = parseFloat(/[\\d.]+px/.exec(this.font)[0]) * Math.hypot(b, d);
        (this.canvas.written ??= []).push([text, size, a * u + c * v + e, b * u + d * v + f,
            wide.width * Math.hypot(a, b), Math.atan2(b, a)]);
        return fillText.call(this, text, x, y, ...more);
    };
    const canvas = HTMLCanvasElement.prototype;
    const { set, ...about } = Object.getOwnPropertyDescriptor(canvas, "width");
    Object.defineProperty(canvas, "width", { ...about, set(to) {
        this.written = [];
        set.call(this, to);
    } });
})()"""
SIZES = ((820, 1180), (1024, 768), (1120, 700), (1920, 1080))  # beside those of the looks

#: Views that no page opens with: their address, and what is there once they are drawn.
VIEWS = (
    ("?view=layers", "Translations from each encoder layer"),
    ("?view=why", "their sum is the difference"),
    ("attention?kind=cross&layer=1&head=6&queries=1&keys=2&find=pair&source_word=2"
     "&edit=off cross.1.6;cut cross k2", "Show this word to the decoder again"),
    ("floor?focus=decoder.4.cross.3", "Open as a page"),
    ("floor?focus=encoder.2.self", "Open as a page"),
    ("compare?pairing=edits&edit=off cross.1.6;off cross.4.4", "the edited model"),
    ("removals?edit=off cross.1.6;off cross.4.4", "One by one, your 2 edits"),
)  # fmt: skip

#: Pictures on the page, in shadow roots too, that a screen reader would meet without a name.
UNNAMED = """() => {
    // Streamlit's own table is drawn on a canvas that holds an accessible table.
    const names = "[aria-hidden=true], [aria-label]:not([aria-label='']), [alt]:not([alt='']), "
        + "[data-testid=stDataFrame]";
    const main = "[data-testid=stMain]";
    const named = (at) => {
        const near = at?.closest(`${names}, ${main}`);
        return near ? !near.matches(main) : at && named(at.getRootNode().host);
    };
    return all(document.querySelector(main))
        .filter((each) => each.matches("canvas, img, svg[role=img], .js-plotly-plot"))
        .filter((each) => each.getClientRects().length && !named(each))
        .map((each) => each.outerHTML.slice(0, 120));
}"""

#: Resolves once the places of the elements of the page have been the same for ten frames.
NOTHING_MOVES = """async () => {
    await document.fonts.ready;
    const main = document.querySelector("[data-testid=stMain]");
    const sizes = () => [main, ...main.querySelectorAll("[data-testid=stElementContainer]")]
        .map((each) => [each.scrollWidth, each.scrollHeight, each.offsetTop]).join();
    for (let before = "", frames = 0; frames < 10; frames += 1) {
        await new Promise(requestAnimationFrame);
        const now = sizes();
        if (now !== before) [before, frames] = [now, 0];
    }
}"""


def settled(page: Page) -> None:
    until_settled(page)
    page.evaluate(NOTHING_MOVES)
    until_settled(page)


def check_places(page: Page, where: str) -> None:
    beside, inside = page.evaluate(TOO_WIDE)
    assert beside <= 0, f"{where}: the page scrolls sideways by {beside} px"
    in_the_way = page.evaluate(IN_THE_WAY)
    assert not in_the_way, f"{where}: {in_the_way}"
    if page.evaluate("innerWidth") < 400:
        assert inside <= 0, f"{where}: its main part scrolls sideways"


def check_links(page: Page) -> None:
    links = page.get_by_test_id("stTopNavLink")
    expect(links).to_have_text([*DOORS])
    boxes = links.evaluate_all("all => all.map((each) => each.getBoundingClientRect())")
    assert len({round(box["y"]) for box in boxes}) == 1
    assert max(box["right"] for box in boxes) <= 1280 - 60


def by_menu(page: Page, spec: AppPage) -> None:
    """Go to the next page through its door, or through the menu."""
    found = [
        (door if order == 0 else "", name)
        for door in DOORS
        for order, (name, (page, _)) in enumerate(entries_of(door).items())
        if page is spec
    ]
    link, entry = found[0] if found else ("All models, and your own", "")
    if link:
        page.get_by_role("link", name=link, exact=True).first.dispatch_event("click")
    else:
        page.get_by_role("radio", name=entry, exact=True).click()
    until_at(page, f"/{spec.path}")


def test_no_page_says_anything_wrong_or_is_too_wide(app: str, page: Page) -> None:
    wrong: list[str] = []
    page.add_init_script(NOTE)
    looks: list[Look] = [("light", 1280, 720), ("dark", 390, 844)]
    where = ""

    def look_at(theme: Literal["light", "dark"], width: int, height: int) -> None:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": height})

    def note(what: str) -> None:
        wrong.append(f"{where}: {what}")

    page.on("pageerror", lambda error: note(str(error)))
    page.on("console", lambda said: said.type == "error" and note(f"{said.text} {said.location}"))
    page.on("response", lambda got: got.status >= 400 and note(f"{got.status} {got.url}"))
    page.on("requestfailed", lambda asked: note(f"{asked.failure} {asked.url}"))
    for spec in all_pages():
        where = spec.path
        look_at(*looks[0])
        if spec is all_pages()[0]:
            page.goto(f"{app}/{spec.path}?{QUERY}")
        else:  # by the menu, which a phone hides: the browser keeps the scripts
            by_menu(page, spec)
        settled(page)
        if spec is all_pages()[0]:
            until_passes(page, lambda: check_links(page))
            page.evaluate(AXE)
        eventually(page, lambda: page.evaluate(UNNAMED), [])
        for look in looks:
            if look is not looks[0]:
                look_at(*look)
                settled(page)
            expect(page.get_by_test_id("stException")).to_have_count(0)
            until_passes(page, partial(check_places, page, f"{where}, {look}"))
            wrong += [f"{where}, {look}: {each}" for each in page.evaluate(SPOILT)]
        page.keyboard.press("Tab")  # makes what scrolls reachable
        # What stands around every page is looked at once in each theme.
        part = (
            "document"
            if spec in all_pages()[:2]
            else "document.querySelector('[data-testid=stMain]')"
        )
        wrong += [f"{where}, {looks[1]}: {each}" for each in page.evaluate(SERIOUS % part)]
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            settled(page)
            wrong += [f"{where}, {width} px: {each}" for each in page.evaluate(SPOILT)]
        looks.reverse()
    for address, drawn in VIEWS:
        path, _, view = address.partition("?")
        page.goto(f"{app}/{path}?{QUERY}&{view}")
        expect(page.get_by_text(drawn).first).to_be_visible()
        expect(page.get_by_test_id("stException")).to_have_count(0)
        for width, height in (*(look[1:] for look in looks), *SIZES):
            where = f"{address}, {width} px"
            page.set_viewport_size({"width": width, "height": height})
            settled(page)
            until_passes(page, partial(check_places, page, where))
            wrong += [f"{where}: {each}" for each in page.evaluate(SPOILT)]
    # A page that is left takes its unfinished requests with it.
    assert not [each for each in wrong if "ERR_ABORTED" not in each]


def test_labels_have_12_px_at_16_tokens(app: str, page: Page) -> None:
    tiny = []
    page.add_init_script(NOTE)
    long = "The cat didn't cross the street because it was too tired."
    for view in (
        "?view=steps", "?view=layers", "?view=why", "beam?", "tokens?", "positions?part=model",
        "attention?display=grid", "attention?display=heads", "attention?display=matrix",
        "head?kind=cross", "heads?", "removals?", "floor?", "compare?", "family?", "parsing?",
    ):  # fmt: skip
        page.goto(f"{app}/{view}&checkpoint=everyday-en-de&sentence={long}")
        settled(page)
        found = page.evaluate(SPOILT)
        tiny += [f"{view}: {each}" for each in found if each.startswith("tiny")]
    assert not tiny


#: Where the first picture of a page begins, with its labels, in px from the top.
PICTURE = """() => {
    const main = document.querySelector("[data-testid=stMain]");
    const kinds = ".grid .table, .lens .plot, canvas.strokes, .stages canvas, svg.marks, .rays, "
        + ".scroller, .tree, .cut";
    const tops = all(main).filter((each) => each.matches(kinds) && each.checkVisibility())
        .map((each) => each.getBoundingClientRect()).filter(({ height }) => height > 10)
        .map(({ top }) => Math.round(top + main.scrollTop));
    return tops.length ? Math.min(...tops) : null;
}"""

#: Text that its box cuts off sideways.
CUT = """() => {
    const boxes = "[data-testid=stMain] :is([data-baseweb=select] *, p, button)";
    return [...document.querySelectorAll(boxes)].filter((each) => each.checkVisibility()
        && getComputedStyle(each).overflowX !== "visible" && each.clientWidth > 2
        && each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent.slice(0, 60));
}"""


def test_the_picture_comes_first_and_nothing_is_cut(app: str, page: Page) -> None:
    wrong = []
    for view in (
        "attention?display=grid", "attention?display=heads&units=words",
        "attention?display=matrix", "head?kind=cross", "heads?role=roles", "removals?step=2",
        "?view=steps", "?view=layers", "?view=why", "beam?", "tokens?", "positions?", "complexity?",
    ):  # fmt: skip
        page.goto(f"{app}/{view}&{QUERY}")
        for width, height in ((1280, 720), (390, 844), (768, 1024), (1024, 768), (1920, 1080)):
            page.set_viewport_size({"width": width, "height": height})
            settled(page)
            top, cut = page.evaluate(PICTURE), page.evaluate(CUT)
            if top is None or top >= {1280: 220, 390: 300}.get(width, height / 2):
                wrong.append(f"{view}, {width} px: the picture begins at {top}")
            wrong += [f"{view}, {width} px, cut: {text}" for text in cut]
    assert not wrong
