"""A running app and a browser that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, NoChromiumError, find_or_install
from tests.browser.pace import Trivial
from tests.servers import serving
from tests.tiny_models import SENTENCES, random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer, train_tokenizer

#: Generous: a busy machine is slow, and what never comes fails all the same.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        path = find_or_install()
    except NoChromiumError as missing:
        pytest.fail(str(missing))
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """A window for all tests that need none to themselves.

    It loads the app's code once for each server, which is half of what opening a page takes.
    """
    shared = browser.new_context(viewport={"width": 1280, "height": 720})
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the app on the shipped checkpoints, one server for all tests."""
    with serving(tmp_path_factory.mktemp("server") / "log.txt") as (address, _):
        yield address


@pytest.fixture(scope="session")
def root(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_checkpoint: Path,
    tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
) -> Path:
    """Where the app at `address` finds its checkpoints.

    `tiny` opens by itself; `wide` has other depths and head counts and cuts text alike; `words`
    spells unknown characters in bytes.
    """
    root = tmp_path_factory.mktemp("checkpoints")
    shutil.copytree(tiny_checkpoint, root / "tiny")
    wide = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=20, n_heads=5, d_ff=24, n_encoder_layers=1,
        n_decoder_layers=2, max_positions=600,
    )  # fmt: skip
    save_checkpoint(root / "wide", random_model(wide), tiny_tokenizer)
    spelling = train_tokenizer(SENTENCES, 420, byte_fallback=True, fewer=True)
    words = tiny_config.replace(vocab_size=spelling.vocab_size)
    save_checkpoint(root / "words", random_model(words), spelling)
    return root


@pytest.fixture(scope="session")
def address(
    tmp_path_factory: pytest.TempPathFactory, root: Path, window: BrowserContext
) -> Iterator[str]:
    """Address of the app on `root`, one server for all tests; somebody has looked at it before."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(log, checkpoints=root) as (url, _):
        page = window.new_page()
        page.set_default_timeout(3 * PATIENCE_MS)
        page.goto(url)
        page.locator(".player").first.wait_for()
        page.close()
        yield url


@pytest.fixture(scope="module")
def trivial(context: BrowserContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trivial]:
    """The trivial page, in the `context` of a file that measures against it.

    It is served as Streamlit serves a page by itself: in a new Python without this app's libraries,
    and with garbage collected after every answer.
    """
    log = tmp_path_factory.mktemp("trivial") / "log.txt"
    page = ("-m", "streamlit", "run", "tests/browser/trivial_app.py")
    with serving(log, (*page, "--runner.postScriptGC=true"), fresh=True) as (address, _):
        yield Trivial(context.new_page(), address)


@pytest.fixture
def unvisited_app(tmp_path: Path) -> Iterator[str]:
    """Address of an app that nobody has opened yet."""
    with serving(tmp_path / "log.txt") as (address, _):
        yield address


@pytest.fixture
def cold_app(tmp_path: Path) -> Iterator[str]:
    """The same, while its libraries are still being loaded."""
    with serving(tmp_path / "log.txt", fresh=True) as (address, _):
        yield address


@pytest.fixture
def open_page(window: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Open an address in a tab of its own; what goes wrong in it fails the test."""
    wrong: list[str] = []
    pages: list[Page] = []

    def opened(address: str, theme: str = "light", size: tuple[int, int] = (1280, 720)) -> Page:
        page = window.new_page()
        pages.append(page)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: wrong.append(f"error in the page: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((address.split("/?")[0][:17], "data:", "blob:"))
                else wrong.append(f"the page asked for {request.url}")
            ),
        )
        page.goto(address)
        return page

    yield opened
    for page in pages:
        with suppress(Error):  # it may be on its way elsewhere
            page.evaluate("localStorage.clear()")
        page.close()
    assert not wrong
