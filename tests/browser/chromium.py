"""Find or install a Chromium for the browser tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: Names that the system's package managers use. The first is Chromium without a window around the
#: page: the same engine, at four fifths of the processor time.
NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
    "google-chrome-stable", "chrome",
)  # fmt: skip

#: No sandbox as root in a container, no calls home, and no process that imitates a graphics card,
#: which with extensions and their like takes a sixth of the time of opening a page. One process for
#: all pages of a server, whose code it has compiled, takes a tenth.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-gpu-compositing", "--disable-gpu-rasterization",
    "--disable-software-rasterizer", "--process-per-site", "--disable-extensions",
    "--disable-default-apps", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip

HOW = (
    "The browser tests need Chromium and none could be installed. Do one of these:\n"
    "  set HEADLIGHT_CHROMIUM to the path of a Chromium or Chrome,\n"
    "  python -m playwright install --with-deps chromium,\n"
    "  apt-get install chromium (or your system's package)."
)


def find() -> str | None:
    """Return a working Chromium: HEADLIGHT_CHROMIUM, the system's or Playwright's, or None."""
    return next((path for path in _candidates() if path and _starts(path)), None)


def find_or_install() -> str:
    """Find or install Chromium. Raises `RuntimeError` with instructions if both fail."""
    commands = [] if os.environ.get("HEADLIGHT_CHROMIUM") else _installers()
    while (found := find()) is None and commands:
        command = commands.pop(0)
        print(f"No Chromium found; running: {' '.join(command)}", file=sys.stderr)
        try:
            subprocess.run(command, check=False, timeout=240, stdout=sys.stderr)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
    if found is None:
        raise RuntimeError(HOW)
    return found


def _candidates() -> Iterator[str | None]:
    if named := os.environ.get("HEADLIGHT_CHROMIUM"):
        yield named
        return
    yield from map(shutil.which, NAMES)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:  # last, since asking takes a second
        path = playwright.chromium.executable_path
    yield path if Path(path).exists() else None


def _starts(path: str) -> bool:
    """Return True if it runs here: a download may lack linked libraries."""
    command = [path, "--headless", *FLAGS, "--dump-dom", "about:blank"]
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _installers() -> list[list[str]]:
    """Yield Playwright's download first, then the system's package if permitted."""
    commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        commands.append(["apt-get", "update", "-q"])
        commands += [["apt-get", "install", "-y", "-q", package] for package in NAMES[:2]]
    return commands


if __name__ == "__main__":
    print(find_or_install())
