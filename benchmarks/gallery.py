"""The box of a gallery page in a browser: times, memory, and a film of a first visit.

    OMP_NUM_THREADS=1 python benchmarks/gallery.py [--rounds 5] [--film DIR] [--json]

The pages are opened from a folder, without a network, each round in a new browser that has nothing
in its caches. Times run from the click until the frame that shows the translation in every view.
Beside them stands the processor time of the page's process, which other work on the machine
disturbs less. Linux only.

- first: the first translation of a page, which reads the model.
- next: another sentence of 12 words.
- memory: what the page's process holds for itself, as the browser's task manager counts it, also
  after its garbage is collected; and all its resident memory, most of whose rest is the browser's
  program, shared by all its pages.
- film: from the start of the browser with the page until a sentence of one's own is translated,
  with a picture of each moment in DIR.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.load import resident  # noqa: E402
from benchmarks.turns import Figure, report  # noqa: E402
from headlight.gallery import VIEWS, Worked, gallery, write_gallery  # noqa: E402
from tests.browser.chromium import FLAGS, find_or_install  # noqa: E402

#: A page with the views of most pages, and one with all of them.
PAGES = {"most views": ("player", "grid", "stages", "tree"), "all views": tuple(VIEWS)}
#: Twelve words each.
SENTENCES = (
    "The old man was reading a long letter when the telephone rang.",
    "My sister bought three red apples and a cake at the market.",
    "We could not find the key because it was under a chair.",
    "Every evening the children play in the garden until it is dark.",
)
WATCH = """() => {
    const form = document.querySelector("form.live");
    form.addEventListener("submit", () => { window.from = performance.now(); }, true);
    const drawn = () => requestAnimationFrame(() => setTimeout(() => {
        window.took = performance.now() - from;
    }));
    const ended = () => form.getAttribute("aria-busy") === "false" && drawn();
    new MutationObserver(ended).observe(form, { attributes: true });
}"""


def write_site(folder: Path) -> dict[str, str]:
    """Write one page for each entry of PAGES; return the pages' addresses by those names."""
    made = {
        name: Worked("A dog runs.", "everyday-en-de", title=name, views=views)
        for name, views in PAGES.items()
    }
    write_gallery(folder, [*made.values()])
    return {name: (folder / f"{one.name}.html").as_uri() for name, one in made.items()}


@contextmanager
def opened(playwright: Playwright) -> Iterator[tuple[Browser, Page]]:
    """Open an empty page in a new browser without a network."""
    browser = playwright.chromium.launch(executable_path=find_or_install(), args=list(FLAGS))
    page = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(300_000)
    yield browser, page
    browser.close()


def translate(page: Page, sentence: str) -> None:
    page.evaluate("() => { window.took = null; }")
    page.get_by_label("Your own sentence").fill(sentence)
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_function("() => window.took !== null", polling=20)
    assert page.locator(".live-says.done").count() == 1


def measure(playwright: Playwright, addresses: dict[str, str], rounds: int) -> Iterator[Figure]:
    for name, address in addresses.items():
        times = defaultdict[str, list[tuple[float, float]]](list)
        for _ in range(rounds):
            with opened(playwright) as (browser, page):
                asked = browser.new_browser_cdp_session()

                def of_page(what: str, asked=asked) -> float:
                    every = asked.send("SystemInfo.getProcessInfo")["processInfo"]
                    return float(next(one[what] for one in every if one["type"] == "renderer"))

                page.goto("about:blank")
                pid = int(of_page("id"))
                empty = [resident(pid, what) for what in ("RssAnon", "VmRSS")]
                page.goto(address)
                page.wait_for_selector("html[data-ready]")
                page.evaluate(WATCH)
                for at, sentence in enumerate(SENTENCES):
                    before = of_page("cpuTime")
                    translate(page, sentence)
                    spent = of_page("cpuTime") - before
                    times["next" if at else "first"].append((page.evaluate("took") / 1000, spent))
                assert int(of_page("id")) == pid
                full = [resident(pid, what) for what in ("RssAnon", "VmRSS")]
                page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
                page.wait_for_timeout(3_000)
                kept = resident(pid, "RssAnon")
        for which, aim in (("first", 3.0), ("next", 1.0)):
            took, spent = zip(*times[which], strict=True)
            yield Figure(f"{name}: {which}, least", min(took), aim, "s")
            yield Figure(f"{name}: {which}, median", statistics.median(took), aim, "s")
            yield Figure(f"{name}: {which}, processor, least", min(spent), None, "s")
            yield Figure(f"{name}: {which}, processor, median", statistics.median(spent), None, "s")
        own, resident_ = zip(empty, full, strict=True)
        yield Figure(f"{name}: memory after {len(SENTENCES)} sentences, own", own[1], 300, "MB")
        yield Figure(
            f"{name}: memory after {len(SENTENCES)} sentences, all", resident_[1], None, "MB"
        )
        yield Figure(f"{name}: memory, own, without what can be thrown away", kept, 300, "MB")
        yield Figure("an empty page: memory, own", own[0], None, "MB")
        yield Figure("an empty page: memory, all", resident_[0], None, "MB")


def film(playwright: Playwright, index: Path, folder: Path) -> Iterator[Figure]:
    """A first visit: the index of the gallery's folder, a page, a sentence of one's own."""
    folder.mkdir(parents=True, exist_ok=True)
    started, passed = time.monotonic(), list[float]()

    def take(what: str) -> None:
        passed.append(time.monotonic() - started)
        page.screenshot(path=folder / f"{len(passed)}-{what}.png")

    with opened(playwright) as (_, page):
        page.goto(index.as_uri())
        take("double-click")
        page.get_by_role("link", name="Too tired").click()
        page.wait_for_selector("html[data-ready]")
        take("page")
        page.get_by_label("Your own sentence").fill("")
        page.get_by_label("Your own sentence").press_sequentially("Where is my red umbrella?")
        take("typed")
        page.keyboard.press("Enter")
        page.wait_for_selector(".live-says.done, .live-says.wrong")
        take("translated")
        yield Figure("film: until one's own sentence is translated", passed[-1], 20.0, "s")
        page.locator(".view").last.scroll_into_view_if_needed()
        take("views")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="browsers that are started")
    parser.add_argument("--film", type=Path, metavar="DIR", help="folder for pictures of a visit")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()

    def figures() -> Iterator[Figure]:
        if arguments.film:
            yield from film(playwright, gallery(out=folder / "stick"), arguments.film)
        yield from measure(playwright, addresses, arguments.rounds)

    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        folder = Path(made)
        addresses = write_site(folder)
        report(figures(), arguments.json)


if __name__ == "__main__":
    main()
