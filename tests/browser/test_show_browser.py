"""Pages that `show` writes, opened without a network and in a notebook's frame."""

from __future__ import annotations

import html
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from headlight import show
from tests.browser.test_downloads import open_offline
from tests.browser.waiting import point, starting_with, until_passes
from tests.factories import make_trace
from transformer.__main__ import main
from transformer.arrays.trace_file import save_arrays
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS

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


def test_the_page_shows_every_kind_and_head_with_its_numbers(
    browser: Browser, page_file: Path, trace: Trace
) -> None:
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
        assert f"{cross[0, 1].max():.4f}" in lens.get_by_role("status").inner_text()

    until_passes(page, check)
    assert heard == [page_file.as_uri()]
    page.context.close()


def test_a_notebooks_frame_shows_the_same(browser: Browser, tmp_path: Path, trace: Trace) -> None:
    notebook = tmp_path / "notebook.html"
    view = show(trace)
    notebook.write_text(
        f"<!doctype html><meta charset=utf-8><title>{html.escape('a notebook')}</title>"
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
