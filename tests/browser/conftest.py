"""A running app and a browser that looks at it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, NoChromiumError, find_or_install
from tests.browser.pace import Trivial
from tests.pages.session import serving

ROOT = Path(__file__).resolve().parents[2]

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


def start_app(log: Path, checkpoints: Path | None = None) -> tuple[str, subprocess.Popen[bytes]]:
    """Start the app on a free port. Returns: its address, once it answers, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if checkpoints is not None:
        environment["HEADLIGHT_CHECKPOINTS"] = str(checkpoints)
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true"]
    command += ["--server.address=127.0.0.1", f"--server.port={port}"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return address, process
        except OSError:
            time.sleep(0.2)
    process.kill()
    process.wait()
    raise RuntimeError(f"the app did not start:\n{log.read_text(errors='replace')}")


def stop_app(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def running(log: Path, checkpoints: Path | None = None) -> Iterator[str]:
    """The app's address, while it runs."""
    address, process = start_app(log, checkpoints)
    try:
        yield address
    finally:
        stop_app(process)


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the app on the shipped checkpoints, one server for all tests."""
    with running(tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield address


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """Where the app at `address` finds its checkpoints: a small model."""
    root = tmp_path_factory.mktemp("checkpoints")
    shutil.copytree(tiny_checkpoint, root / "tiny")
    return root


@pytest.fixture(scope="session")
def address(
    tmp_path_factory: pytest.TempPathFactory, root: Path, window: BrowserContext
) -> Iterator[str]:
    """Address of the app on `root`, one server for all tests; somebody has looked at it before."""
    with running(tmp_path_factory.mktemp("server") / "log.txt", root) as url:
        page = window.new_page()
        page.set_default_timeout(3 * PATIENCE_MS)
        page.goto(url)
        page.locator(".player").first.wait_for()
        page.close()
        yield url


@pytest.fixture(scope="module")
def trivial(context: BrowserContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trivial]:
    """The trivial page, in the `context` of a file that measures against it."""
    log = tmp_path_factory.mktemp("trivial") / "log.txt"
    with serving(["-m", "streamlit", "run", "tests/browser/trivial_app.py"], log) as (address, _):
        yield Trivial(context.new_page(), address)


@pytest.fixture
def cold_app(tmp_path: Path) -> Iterator[str]:
    """Address of an app that nobody has opened yet."""
    with running(tmp_path / "log.txt") as address:
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
