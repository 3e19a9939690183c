import re
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from figures.paper import PRESETS, to_svg
from headlight import show
from tests.browser.pixels import pixels
from tests.browser.waiting import eventually, point, starting_with, until_idle, until_passes
from tests.factories import make_trace
from tests.searched import searched
from transformer.__main__ import main
from transformer.models.arrays.trace_file import save_arrays
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS
from ui.beam.exhibits import search_tree

#: Its tokens want to be markup, a formula, or to turn the line around.
SENTENCE = "<script>document.title='run'</script> =1+1 \"a\" שלום e\u0301 The cat " + "l" * 24

FORMATS = {"svg": "SVG drawing", "csv": "CSV table", "html": "HTML page"}

#: What is taken from which page: a click brings every format alike.
TO_TRY = {"attention": ("svg", "html", "csv"), "translate": ("svg", "html")}


@pytest.fixture(scope="module")
def files(
    window: BrowserContext, shared_address: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Path]]:
    folder = tmp_path_factory.mktemp("files")
    taken: dict[str, dict[str, Path]] = {}
    page = window.new_page()
    page.goto(f"{shared_address}/translate?sentence={quote(SENTENCE)}&layer=2&head=1")
    for name in ("translate", "attention"):
        if name == "attention":
            page.get_by_role("link", name="Attention").first.click()
            page.get_by_role("gridcell").first.wait_for()
        page.locator("[data-testid=stMain] canvas").first.wait_for()
        # The page before has such a button too, and goes with it when the new one is through.
        until_idle(page)
        page.get_by_role("button", name="Download").first.click()
        taken[name] = {}
        for ending in TO_TRY[name]:
            with page.expect_download() as waiting:
                page.get_by_role("button", name=FORMATS[ending]).click()
            file = waiting.value
            assert file.suggested_filename.endswith(f".{ending}")
            assert file.suggested_filename.startswith(("cross-attention", "decod"))
            taken[name][ending] = folder / f"{name}.{ending}"
            file.save_as(taken[name][ending])
    page.close()
    return taken


#: Texts of the drawing on screen that leave it, by the browser's own measure.
OUTSIDE = """() => {
    const page = document.documentElement.getBoundingClientRect();
    return [...document.querySelectorAll("text")].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.left < page.left - 1 || box.right > page.right + 1
            || box.top < page.top - 1 || box.bottom > page.bottom + 1;
    }).map((each) => each.textContent);
}"""


def test_drawings_and_papers_open_with_their_texts_inside(
    browser: Browser, files: dict[str, dict[str, Path]], tmp_path: Path
) -> None:
    tree = search_tree(searched(3, 4))
    drawings = [each["svg"] for each in files.values()]
    for name, preset in PRESETS.items():
        drawings.append(tmp_path / f"{name}.svg")
        drawings[-1].write_bytes(to_svg(tree, preset))
    page = browser.new_page()
    for drawing in drawings:
        page.goto(drawing.as_uri())
        assert page.locator("text").count() > 10
        eventually(page, lambda: page.evaluate(OUTSIDE), [])
    page.close()


def open_offline(browser: Browser, path: Path, *, ready: bool = True) -> tuple[Page, list[str]]:
    """Open a file without a network; return its requests and errors."""
    context = browser.new_context(
        offline=True, color_scheme="light", viewport={"width": 1280, "height": 720}
    )
    context.set_default_timeout(120_000)
    page = context.new_page()
    heard: list[str] = []
    page.on("request", lambda request: heard.append(request.url))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
    page.goto(path.as_uri())
    if ready:
        page.wait_for_function("document.documentElement.dataset.ready > 0")
    return page, heard


#: Whether the paper is as light, or as dark, as this.
BACKGROUND = """([least, most]) => {
    const [red] = getComputedStyle(document.body).backgroundColor.match(/\\d+/);
    return least <= red && red <= most;
}"""


def check_colours(page: Page) -> None:
    found = page.evaluate_handle(
        """() => [...document.querySelectorAll(".view")]
            .flatMap((view) => [...view.shadowRoot.querySelectorAll("canvas:not(.rays)")])
            .sort((a, b) => b.width * b.height - a.width * a.height)[0]"""
    ).as_element()
    assert found and len(np.unique(pixels(found).reshape(-1, 3), axis=0)) > 10


@pytest.mark.parametrize("name", TO_TRY)
def test_pages_work_offline(browser: Browser, files: dict[str, dict[str, Path]], name: str) -> None:
    page, heard = open_offline(browser, files[name]["html"])
    fonts = "[...document.fonts].map((font) => `${font.family} ${font.status}`)"
    eventually(page, lambda: page.evaluate(fonts), ["Source Sans loaded"])
    assert page.evaluate("getComputedStyle(document.body).fontFamily").startswith('"Source Sans"')
    # Tokens with much weight have it beside them, here perhaps between "T" and "he".
    expect(page.locator(".view").last).to_contain_text(re.compile(r"T(0\.\d+)?he"))
    for theme, least, most in (("light", 252, 255), ("dark", 0, 40)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.wait_for_function(BACKGROUND, arg=[least, most])
    until_passes(page, lambda: check_colours(page))
    if name == "translate":
        player = page.locator(".view").first
        before = player.get_by_text("step ").first.inner_text()
        player.get_by_role("group").first.focus()
        page.keyboard.press("ArrowRight")
        expect(player.get_by_text("step ").first).not_to_have_text(before)
    page.wait_for_load_state("networkidle")
    assert heard == [files[name]["html"].as_uri()]
    assert "run" not in page.title()
    page.context.close()


#: In a trace of somebody's own model.
TOKENS = ("▁The", "<script>document.title='run'</script>", "שלום", "w" * 200)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(
        S=5, T=4, n_encoder_layers=1, n_decoder_layers=2, n_heads=2, src_tokens=TOKENS
    )


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> Path:
    folder = tmp_path_factory.mktemp("show")
    source, out = save_arrays(trace, folder / "one.npz"), folder / "one.html"
    assert main(["show", str(source), "--html", str(out)]) == 0
    return out


def test_the_page_shows_each_kind_and_head(browser: Browser, page_file: Path, trace: Trace) -> None:
    page, heard = open_offline(browser, page_file)
    # The player, and a grid and a lens for each kind.
    page.wait_for_function("document.documentElement.dataset.ready == 7")
    assert page.title() != "run"
    expect(page.locator("h2")).to_have_text(
        [
            starting_with(f"{kind}:")
            for kind in ("Encoder self-attention", "Decoder self-attention", "Cross-attention")
        ]
    )
    grids = page.locator(".view[data-component=grid]")
    for at, kind in enumerate(ATTENTION_KINDS):
        layers, heads = trace.attention(kind).shape[:2]
        expect(grids.nth(at).get_by_role("gridcell")).to_have_count((layers + 1) * (heads + 1))
    # The last lens follows the cell that is clicked in the last grid.
    cross = trace.cross
    grids.last.get_by_role("gridcell").nth(1).click()  # layer 1, head 2
    lens = page.locator(".view[data-component=lens]").last
    row, column = np.unravel_index(cross[0, 1].argmax(), cross.shape[2:])

    def check() -> None:
        point(lens.locator("canvas.cells"), int(column), int(row), 5, 4)
        assert f"{cross[0, 1].max():.2%}" in lens.get_by_role("status").inner_text()

    until_passes(page, check)
    assert heard == [page_file.as_uri()]
    page.context.close()


def test_a_notebooks_frame_shows_the_same(browser: Browser, tmp_path: Path, trace: Trace) -> None:
    notebook = tmp_path / "notebook.html"
    view = show(trace)
    notebook.write_text(
        f"<!doctype html><meta charset=utf-8><title>{'a notebook'}</title>"
        f"<div class=output>{view._repr_html_()}</div>",
        encoding="utf-8",
    )
    page, heard = open_offline(browser, notebook, ready=False)
    frame = page.frame_locator("iframe")
    expect(frame.locator("h2")).to_have_count(3)
    expect(frame.locator(".view").last.locator("canvas").first).to_be_visible()
    frame.get_by_text("The numbers").click()
    cell = frame.locator("td:not(:empty)").first
    expect(cell).to_be_visible()
    assert float(cell.inner_text()) == pytest.approx(trace.encoder_self[0, 0, 0, 0], abs=1e-6)
    assert page.title() == "a notebook"
    assert [each for each in heard if not each.startswith("about:srcdoc")] == [notebook.as_uri()]
    page.context.close()
