"""The page of models in a browser: cards run nothing, and an import is seen through to its use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.waiting import until_the_url_says
from tests.servers import serving
from tests.transformer.importers.models import make_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

OpenPage = Callable[..., Page]
CARD = """# It <b id="card-bold">bold</b>
<script>document.title = "taken"</script>
<img src="/_stcore/health?card" onerror="document.title = 'taken'">
![picture](/_stcore/health?picture) [link](javascript:document.title='taken')
:red[not red] $x$
"""


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path
) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(tiny_checkpoint, folder / "root" / "alpha")
    (folder / "root" / "alpha" / "README.md").write_text(CARD)
    make_folder(folder / "root" / "theirs", "separate vocabularies")
    with serving(folder / "log.txt", checkpoints=folder / "root") as (address, _):
        yield address, folder / "root"


def test_a_card_is_text(open_page: OpenPage, address: tuple[str, Path]) -> None:
    page = open_page(f"{address[0]}/models?card=alpha")
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.reload()
    card = page.locator(".st-key-model_card")
    expect(card).to_contain_text('<b id="card-bold">bold</b>')
    expect(card).to_contain_text("<script>")
    expect(card).to_contain_text(":red[not red] $x$")
    assert card.locator("script, img, a[href*=javascript], b, .katex").count() == 0
    assert "taken" not in page.title()
    assert not any(url.endswith(("?card", "?picture")) for url in asked)
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            """() => {
                const main = document.querySelector("[data-testid=stMain]");
                return main.clientWidth <= innerWidth && main.scrollWidth <= main.clientWidth;
            }"""
        )
    page.remove_listener("request", note)


def test_a_model_is_imported_and_used(open_page: OpenPage, address: tuple[str, Path]) -> None:
    page = open_page(f"{address[0]}/models")
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("button", name="Import as theirs-imported").click()
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("button", name="In use")).to_be_visible()
    until_the_url_says(page, checkpoint="theirs-imported")
    assert (address[1] / "theirs-imported" / "config.json").is_file()
    assert not [each for each in address[1].iterdir() if each.name.startswith(".")]
