"""Find a Chromium for the browser tests, or install one.

    python tests/browser/chromium.py

looks for HEADLIGHT_CHROMIUM, a Chromium or Chrome on the path, and Playwright's own. Where there is
none it tries Playwright's download, then the system's package, and else says what to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
HELP = (
    "The browser tests need Chromium: none was found, and none could be installed. Install it "
    "with your system's package manager (on Debian: apt-get install chromium), or set "
    "HEADLIGHT_CHROMIUM to the path of a Chromium or Chrome."
)

#: Headless, and quiet: no background traffic, which a closed network would refuse noisily.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    """Path of a Chromium that starts, or None."""
    named = os.environ.get("HEADLIGHT_CHROMIUM")
    found = [named] if named else [shutil.which(name) for name in NAMES]
    if not named:
        found += [str(MAC) if MAC.exists() else None, _from_playwright()]
    return next((path for path in found if path and _starts(path)), None)


def install() -> str | None:
    """Install a Chromium and return its path, or None where neither way works."""
    commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        if not root or shutil.which("sudo"):
            # Playwright's Chromium may lack shared libraries that the system's package brings.
            commands += [
                [*root, "apt-get", "update", "-qq"],
                [*root, "apt-get", "install", "-y", "-qq", "chromium"],
            ]
    for command in commands:
        print("no Chromium yet:", " ".join(command), flush=True)
        try:
            subprocess.run(command, timeout=900, check=False, stdout=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
        if path := find():
            return path
    return None


def _from_playwright() -> str | None:
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
    except Exception as error:  # noqa: BLE001 - any failure means that this way is not open
        print(f"Playwright: {error}", file=sys.stderr)
        return None
    return path if Path(path).exists() else None


def _starts(path: str) -> bool:
    try:
        run = subprocess.run(
            [path, "--headless", *FLAGS, "--version"], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0


if __name__ == "__main__":
    browser = find() or install()
    if browser is None:
        sys.exit(HELP)
    print(f"browser tests use {browser}")
