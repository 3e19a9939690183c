"""Waiting for the state of a page, which Streamlit replaces element by element."""

import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from playwright.sync_api import Error, Locator, LocatorAssertions, Page, expect

from tests.waiting import PATIENCE, wait_until

T = TypeVar("T")

#: What `open_page` in conftest.py gives.
OpenPage = Callable[..., Page]

PATIENCE_MS = PATIENCE * 1000

#: What most tests look into: of two lengths in the tiny model, and with markup.
SENTENCE = "The cat <b>sat</b> on it."

#: Matches while the browser is connected and no script runs.
IDLE = (
    "[data-testid=stApp][data-test-script-state=notRunning][data-test-connection-state=CONNECTED]"
)

_URL_SAYS = """wanted => {
    const said = new URLSearchParams(location.search);
    return Object.entries(wanted).every(([name, value]) => said.get(name) === value)
        && location.href;
}"""


def be_patient() -> None:
    """Make Playwright wait until a locator matches one element, as Streamlit redraws."""
    expect.set_options(timeout=PATIENCE_MS)
    for kind in (Locator, LocatorAssertions):
        for name, method in vars(kind).copy().items():
            if callable(method) and not name.startswith("_") and name not in _MAKE_LOCATORS:
                setattr(kind, name, _until_it_is_the_only_one(method))


#: They ask nothing of the page.
_MAKE_LOCATORS = frozenset(
    name for name in vars(Locator)
    if name.startswith("get_by_") or name in {"and_", "filter", "frame_locator", "locator", "nth",
                                              "or_", "describe", "normalize", "all"}
)  # fmt: skip


def _until_it_is_the_only_one(method: Callable[..., T]) -> Callable[..., T]:
    @wraps(method)
    def patient(*args: Any, **options: Any) -> T:
        return _repeated(lambda: method(*args, **options), "strict mode violation")

    return patient


def _repeated(
    attempt: Callable[[], T], excuse: str = "", wait: Callable[..., object] = wait_until
) -> T:
    """Repeat an attempt while it fails with a message that contains `excuse`."""
    passed: list[T] = []
    failed: list[Exception] = []

    def tried() -> bool:
        failed.clear()
        try:
            passed.append(attempt())
        except (AssertionError, Error) as error:
            if excuse not in str(error):
                raise
            failed.append(error)
        return not failed

    wait(tried)
    if failed:
        raise failed[0]
    return passed[0]


def until_passes(page: Page, check: Callable[[], T]) -> T:
    """Repeat a check that reads the page until it passes."""

    def pause(seconds: float) -> None:
        page.wait_for_timeout(seconds * 1000)  # in which Playwright hears of the page

    return _repeated(check, wait=partial(wait_until, pause=pause))


def eventually(page: Page, read: Callable[[], T], wanted: T) -> None:
    def check() -> None:
        found = read()
        assert found == wanted, (found, wanted)

    until_passes(page, check)


def at_rest(page: Page, read: Callable[[], T]) -> T:
    """Return a value once no script runs and it is stable for ten frames."""

    def check() -> T:
        until_idle(page)
        found = read()
        for _ in range(10):
            page.evaluate("() => new Promise(requestAnimationFrame)")
            assert read() == found
        assert page.locator(IDLE).count()
        return found

    return until_passes(page, check)


def until_the_url_says(page: Page, **wanted: str | None) -> str:
    """Wait for URL parameters, where None means absent, and return the URL."""
    # Hidden tabs have no frames to ask in.
    return str(page.wait_for_function(_URL_SAYS, arg=wanted, polling=50).json_value())


def follow(page: Page, address: str) -> None:
    """Go to an address as the browser's buttons do, dropping its other settings."""
    page.wait_for_timeout(600)  # in which a picture reports the last choice made in it
    until_idle(page)
    page.evaluate(_FOLLOW, address)
    until_idle(page)


#: Resolves once the script runs for it; a run may be too short to be seen.
_FOLLOW = """address => new Promise((runs) => {
    setTimeout(runs, 3000);
    const app = document.querySelector("[data-testid=stApp]");
    const watcher = new MutationObserver(() => {
        if (app.dataset.testScriptState !== "running") return;
        watcher.disconnect();
        runs();
    });
    watcher.observe(app, { attributes: true });
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
})"""


def until_at(page: Page, path: str) -> None:
    page.wait_for_function("path => location.pathname === path", arg=path, polling=50)


def until_idle(page: Page) -> None:
    """Wait until no script runs; call it after a sign that one has started."""
    page.wait_for_selector(IDLE)


def until_settled(page: Page) -> None:
    """Wait until a newly opened page is complete."""
    page.wait_for_selector(f"{IDLE} [data-testid=stMainBlockContainer]")
    expect(page.locator(".keys .hint")).to_be_attached()
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    until_idle(page)


def until_it_fits(page: Page) -> None:
    """Wait until neither the page nor its main part scrolls sideways."""
    page.wait_for_function(
        """[document.documentElement, document.querySelector("[data-testid=stMain]")]
            .every((each) => each.scrollWidth <= Math.min(each.clientWidth, innerWidth))"""
    )


def point(canvas: Locator, column: float, row: float, columns: int, rows: int) -> None:
    """Move the pointer to a 0-based cell in a canvas of equal cells."""
    width, height = canvas.evaluate(
        "({ clientWidth, clientHeight }) => [clientWidth, clientHeight]"
    )
    canvas.hover(position={"x": width / 2, "y": height / 2})
    x, y = (column + 0.5) * width / columns, (row + 0.5) * height / rows
    canvas.hover(position={"x": float(x), "y": float(y)})


def note(root: Locator, selector: str, attribute: str = "textContent") -> None:
    """Record each distinct text of an element within `root`, so that brief texts are not missed."""
    root.evaluate(_NOTE, [selector, attribute])


def noted(root: Locator) -> list[str]:
    found: list[str] = root.evaluate("root => root.noted")
    return found


_NOTE = """(root, [selector, attribute]) => {
    const said = () => {
        const element = root.querySelector(selector);
        return element?.[attribute] ?? element?.getAttribute(attribute);
    };
    root.noted = [said()];
    new MutationObserver(() => {
        if (said() !== root.noted.at(-1)) root.noted.push(said());
    }).observe(root, { childList: true, subtree: true, characterData: true, attributes: true });
}"""


def texts(found: Locator) -> list[str]:
    return [text.strip("\u2068\u2069") for text in found.all_inner_texts()]


def starting_with(text: str) -> re.Pattern[str]:
    return re.compile(f"^{re.escape(text)}")
