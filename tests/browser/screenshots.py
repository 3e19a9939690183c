"""Pictures of every page in both themes: `python -m tests.browser.screenshots FOLDER [QUERY]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.chromium import FLAGS, find_or_install
from tests.servers import serving
from ui.frame.pages import PAGES

THEMES = ("light", "dark")


def take(folder: Path, query: str = "") -> list[Path]:
    """Write `translate-light.png` and so on, 1280 x 720 at twice the pixels. Returns: the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written, chromium = [], find_or_install()
    with (
        tempfile.TemporaryDirectory() as logs,
        serving(Path(logs) / "log.txt", fresh=True) as (address, _),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for theme in THEMES:
            context = browser.new_context(
                viewport={"width": 1280, "height": 720},
                device_scale_factor=2,
                color_scheme=theme,
            )
            for spec in PAGES:
                page = context.new_page()
                page.goto(f"{address}/{spec.url_path}?{query or 'opening=0'}")
                page.wait_for_selector("[data-testid=stMain] canvas", timeout=60_000)
                page.wait_for_timeout(3_000)  # charts draw after their canvas appears
                path = folder / f"{spec.url_path}-{theme}.png"
                page.screenshot(path=path)
                written.append(path)
                page.close()
        browser.close()
    return written


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    for each in take(Path(sys.argv[1]), *sys.argv[2:]):
        print(each)
