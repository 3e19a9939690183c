"""Take README's picture, docs/whole-model.png: python -m tests.browser.pictures."""

import ast
import hashlib
import io
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.forks import ROOT
from ui.components.packing import script, style
from ui.core.examples import examples_for
from ui.frame.page import DOORS, entries_of

PICTURE = ROOT / "docs/whole-model.png"
CHECKPOINT = "everyday-en-de"

#: Most bytes of README's picture.
LARGEST = 300_000

#: What the picture shows, besides its place in the menu and the plan.
_SHOWN = ("app.py", "pages/floor_page.py", "ui/platform/style.css", ".streamlit/config.toml")

#: The PNG's text chunk that holds the fingerprint.
_CHUNK = "headlight"


def fingerprint() -> str:
    """Return a hash of the code behind README's picture, ignoring comments and docstrings."""
    menu = repr((DOORS, [*entries_of("The whole model")]))
    parts = [menu, script("plan"), style("plan")]
    for name in _SHOWN:
        text = (ROOT / name).read_text("utf-8")
        parts.append(_code(text) if name.endswith(".py") else text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def pictured() -> str:
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
    """Write README's picture: the whole model on its first example, in the light theme."""
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import FLAGS, find_or_install
    from tests.servers import serving

    sentence = examples_for(CHECKPOINT).items[0].sentence
    with (
        tempfile.TemporaryDirectory() as logs,
        serving(Path(logs) / "log.txt", fresh=True) as (address, _),
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=find_or_install(), args=list(FLAGS))
        page = chromium.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
        page.goto(f"{address}/floor?checkpoint={CHECKPOINT}&sentence={sentence}")
        page.wait_for_selector(".plan svg, .plan canvas", timeout=120_000)
        page.wait_for_timeout(3_000)  # fonts, and the first step's transition
        shot = Image.open(io.BytesIO(page.screenshot()))
        chromium.close()
    chunk = PngInfo()
    chunk.add_text(_CHUNK, fingerprint())
    shot.convert("RGB").save(PICTURE, pnginfo=chunk, optimize=True)


if __name__ == "__main__":
    take_picture()
