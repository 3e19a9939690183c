"""Fixtures for a running app and its browser."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Request, sync_playwright

from tests.browser.chromium import FLAGS, find_or_install
from tests.browser.live import live_pages
from tests.browser.waiting import PATIENCE_MS, SENTENCE, be_patient, follow
from tests.browser.wire import Wire
from tests.servers import free_port, serving, wait_for_empty
from tests.tiny_models import SENTENCES, random_model, uneven_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer, train_tokenizer
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.tours.opening import COOKIE, SEEN

be_patient()

#: Pages of tests are gone before code of the second and third compiler has paid for itself. Helpers
#: of the collector, of painting and of compositing wait for each other more than they work.
SHORT_LIVED = (
    "--js-flags=--no-opt --no-maglev --always-sparkplug --single-threaded-gc",
    "--in-process-gpu",
    "--disable-threaded-animation",
    "--num-raster-threads=1",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_or_install()
    with sync_playwright() as playwright:
        args = [*FLAGS, *SHORT_LIVED]
        chromium = playwright.chromium.launch(executable_path=path, args=args)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """A window shared by tests."""
    shared = browser.new_context(viewport={"width": 1280, "height": 720})
    shared.set_default_timeout(PATIENCE_MS)
    # A visitor who has been here before: the opening is over.
    shared.add_cookies([{"name": COOKIE, "value": SEEN, "url": "http://127.0.0.1"}])
    yield shared
    shared.close()


#: Every element below a root, in shadow roots too, for what tests look for in a page.
ALL = """window.all = (root) => [...root.querySelectorAll("*")]
    .flatMap((each) => [each, ...(each.shadowRoot ? all(each.shadowRoot) : [])]);"""


@pytest.fixture
def page(window: BrowserContext) -> Iterator[Page]:
    """A page of its own in the shared window, bright, which knows `all`."""
    page = window.new_page()
    page.add_init_script(ALL)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 720})
    yield page
    page.close()


@pytest.fixture(scope="session")
def shared_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of one server with the shipped checkpoints for all tests."""
    with serving(tmp_path_factory.mktemp("server") / "log.txt") as (address, _):
        yield address


@pytest.fixture
def app(shared_app: str, window: BrowserContext) -> str:
    return _with_open_tabs_only(shared_app, window)


@pytest.fixture(scope="session")
def root(
    tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path, tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
) -> Path:  # fmt: skip
    """Checkpoints: `tiny` is the default, `wide` has other sizes, `words` has byte fallback."""
    root = tmp_path_factory.mktemp("checkpoints")
    shutil.copytree(tiny_checkpoint, root / "tiny")
    save_checkpoint(root / "wide", uneven_model(tiny_tokenizer), tiny_tokenizer)
    spelling = train_tokenizer(SENTENCES, 420, byte_fallback=True, fewer=True)
    words = tiny_config.replace(vocab_size=spelling.vocab_size)
    save_checkpoint(root / "words", random_model(words), spelling)
    return root


@pytest.fixture(scope="session")
def shared_address(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[str]:
    """Address of one server on `root` for all tests."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(log, checkpoints=root) as (url, _):
        yield url


@pytest.fixture
def address(shared_address: str, window: BrowserContext) -> str:
    return _with_open_tabs_only(shared_address, window)


def _with_open_tabs_only(server: str, window: BrowserContext) -> str:
    wait_for_empty(server, sum(page.url.startswith(server) for page in window.pages))
    return server


@pytest.fixture(scope="session")
def trace(tiny_translator: Translator) -> Trace:
    made = tiny_translator.trace(SENTENCE)
    assert len(made.src_tokens) != len(made.tgt_tokens)
    return made


@pytest.fixture(scope="session")
def wired(window: BrowserContext) -> Iterator[tuple[Page, Wire]]:
    page = window.new_page()
    yield page, Wire(page)
    page.close()


@pytest.fixture(scope="module")
def live(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Page]]:
    yield from live_pages(browser, tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="session")
def spare_port() -> int:
    """Ports reused by servers, so that the browser caches the app's compiled scripts."""
    return free_port()


HIDDEN_DOORS = """[...document.querySelectorAll("[data-testid=stTopNavLink]")]
    .some((each) => each.closest("[inert]"))"""


class Tab:
    """A tab reused by tests, which records errors; `at` is "" if its page must be reopened."""

    def __init__(self, window: BrowserContext, wrong: list[str]) -> None:
        self.page, self._wrong = window.new_page(), wrong
        self.at = self._own = ""
        self.page.on("pageerror", lambda error: wrong.append(f"error in the page: {error}"))
        self.page.on("request", self._request)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._own, "data:", "blob:", "about:")):
            self._wrong.append(f"the page asked for {request.url}")

    def open(self, address: str, theme: str, size: tuple[int, int], *, anew: bool) -> Page:
        """Open an address without earlier settings."""
        self._own = "/".join(address.split("/")[:3])
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=theme, reduced_motion="no-preference")  # type: ignore[arg-type]
        self.page.bring_to_front()
        at, _, settings = address.partition("?")
        if settings and at == self.at and not anew:
            follow(self.page, address)
        else:
            self.page.goto(address)
        self.at = at
        return self.page

    def leave(self) -> None:
        """Clear the browser storage; keep a wide page with visible doors."""
        wide = (self.page.viewport_size or {"width": 0})["width"] > 900
        stays = wide and self.page.url.partition("?")[0] == self.at
        self.page.mouse.move(0, 0)
        with suppress(Error):  # it may be on its way elsewhere
            stays = stays and not self.page.evaluate(HIDDEN_DOORS)
            self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
            self.page.evaluate("document.activeElement.blur()")
        if not stays:
            self.at = ""
            self.page.goto("about:blank")


@pytest.fixture(scope="session")
def tabs() -> list[Tab]:
    return []


@pytest.fixture
def open_page(
    window: BrowserContext, tabs: list[Tab], _wrong: list[str]
) -> Iterator[Callable[..., Page]]:
    """Open an address in a separate tab; any error in it fails the test."""
    used: list[Tab] = []

    def opened(
        address: str, theme: str = "light", size: tuple[int, int] = (1280, 720), *,
        anew: bool = False,
    ) -> Page:  # fmt: skip
        here = [tab for tab in tabs if tab.at == address.partition("?")[0]]
        used.append((here or tabs or [Tab(window, _wrong)])[-1])
        if used[-1] in tabs:
            tabs.remove(used[-1])
        return used[-1].open(address, theme, size, anew=anew)

    def dialog(shown: Any) -> None:
        _wrong.append(f"dialog: {shown.message}")
        shown.dismiss()

    window.on("dialog", dialog)
    yield opened
    for tab in used:
        tab.leave()
    tabs.extend(used)
    window.remove_listener("dialog", dialog)
    wrong = _wrong.copy()
    _wrong.clear()
    assert not wrong


@pytest.fixture(scope="session")
def _wrong() -> list[str]:
    return []
