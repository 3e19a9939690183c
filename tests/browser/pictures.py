"""Take pictures of the app.

python -m tests.browser.pictures          README's picture, docs/translate.png
python -m tests.browser.pictures FOLDER   every page in both themes
"""

from __future__ import annotations

import ast
import hashlib
import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.forks import ROOT
from ui.components.files import script, style
from ui.core.examples import examples_for
from ui.frame.pages import PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURE = ROOT / "docs/translate.png"
CHECKPOINT = "everyday-en-de"

#: Most bytes of README's picture.
LARGEST = 300_000

#: What a picture of Translate shows, besides the menu and the player: Python and styles.
_SHOWN = ("app.py", "pages/translate_page.py", "ui/frame/style.css", ".streamlit/config.toml")

#: The PNG's text chunk that holds the fingerprint.
_CHUNK = "headlight"


def fingerprint() -> str:
    """Return a hash of what README's picture shows; comments and docstrings do not change it."""
    parts = [repr([spec.title for spec in PAGES]), script("player"), style("player")]
    for name in _SHOWN:
        text = (ROOT / name).read_text("utf-8")
        parts.append(_code(text) if name.endswith(".py") else text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def pictured() -> str:
    """Return the fingerprint of the app that README's picture was taken of."""
    with Image.open(PICTURE) as image:
        return str(image.info.get(_CHUNK, ""))


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.unparse(tree)


def take_picture() -> None:
    """Write README's picture: Translate with its first example, in the light theme."""
    sentence = examples_for(CHECKPOINT).items[0].sentence
    with _app() as (address, chromium):
        page = chromium.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
        page.goto(f"{address}/?opening=0&checkpoint={CHECKPOINT}&sentence={sentence}")
        page.wait_for_selector(".player canvas.matrix", timeout=120_000)
        page.wait_for_timeout(3_000)  # fonts, and the first step's transition
        shot = Image.open(io.BytesIO(page.screenshot()))
    chunk = PngInfo()
    chunk.add_text(_CHUNK, fingerprint())
    shot.convert("RGB").save(PICTURE, pnginfo=chunk, optimize=True)


def take_all(folder: Path) -> None:
    """Write `translate-light.png` and so on, 1280 x 720 at twice the pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    with _app() as (address, chromium):
        for theme in ("light", "dark"):
            size = {"width": 1280, "height": 720}
            window = chromium.new_context(
                viewport=size,  # type: ignore[arg-type]
                device_scale_factor=2, color_scheme=theme,  # type: ignore[arg-type]
            )  # fmt: skip
            for spec in PAGES:
                page = window.new_page()
                page.goto(f"{address}/{spec.url_path}?opening=0")
                page.wait_for_selector(".keys .hint", state="attached", timeout=120_000)
                page.wait_for_timeout(3_000)  # charts draw after their canvas appears
                page.screenshot(path=folder / f"{spec.url_path}-{theme}.png")
                page.close()


@contextmanager
def _app() -> Iterator[tuple[str, Browser]]:
    """The address of a running app, and a browser."""
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import FLAGS, find_or_install
    from tests.servers import serving

    path = find_or_install()
    with (
        tempfile.TemporaryDirectory() as logs,
        serving(Path(logs) / "log.txt", fresh=True) as (address, _),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield address, browser
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        take_picture()
    else:
        take_all(Path(sys.argv[1]))
