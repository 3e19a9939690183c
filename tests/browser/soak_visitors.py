"""Long work that is stopped, and a visitor whose place goes to one who waits."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.servers import serving
from tests.tiny_models import random_model, sentence_of
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from ui.translate.opening import COOKIE, SEEN

OpenPage = Callable[..., Page]

#: Presses Stop as soon as the bar is there. Asked from outside, a busy browser answers too late.
STOP_AT_SIGHT = """() => {
  window.bar = new Promise((seen) => {
    const look = () => {
      const text = document.querySelector("[data-testid=stProgress]")?.textContent ?? "";
      if (!text.includes("Working: ")) return;
      watcher.disconnect();
      document.querySelector(".st-key-stop_work button").click();
      seen(text);
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document.body, { childList: true, subtree: true, characterData: true });
  });
}"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Iterator[str]:
    """The app on a model of 256 heads in the encoder."""
    folder = tmp_path_factory.mktemp("many")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=128, n_heads=16, d_ff=32, n_encoder_layers=16,
        n_decoder_layers=1, output_bias=True, max_positions=600,
    )  # fmt: skip
    save_checkpoint(folder / "root" / "many-heads", random_model(config), tiny_tokenizer)
    with serving(folder / "log.txt", checkpoints=folder / "root") as (address, _):
        yield address


def test_work_in_a_fragment_stops(open_page: OpenPage, app: str, tiny_tokenizer: Tokenizer) -> None:
    """The lines of 256 heads, about 28 million weights to put in order."""
    heads = "-".join(f"{i}.{j}" for i in range(1, 17) for j in range(1, 17))
    page = open_page(
        f"{app}/attention?checkpoint=many-heads&kind=encoder_self&target=b&heads={heads}"
        f"&sentence={quote(sentence_of(tiny_tokenizer, 500))}"
    )
    page.get_by_role("gridcell").first.wait_for()
    page.reload()  # what it shows is known by now: this run has no work to show the progress of
    page.get_by_role("gridcell").first.wait_for()
    page.evaluate(STOP_AT_SIGHT)
    page.get_by_role("radio", name="Word links").click()
    assert page.evaluate("() => window.bar").startswith("Working: ")
    expect(page.get_by_test_id("stAlert")).to_contain_text("Stopped.")
    expect(page.locator(".lines")).to_have_count(0)  # it was not stopped by being done
    page.get_by_role("radio", name="All heads").click()
    page.get_by_role("gridcell").first.wait_for()
    expect(page.get_by_test_id("stProgress")).to_have_count(0)


def test_who_gave_a_place_up_gets_it_back(browser: Browser, root: Path, tmp_path: Path) -> None:
    command = ["-m", "tests.pages.altered_server", "haste", "-"]
    few = {"HEADLIGHT_SESSIONS": "1"}
    with serving(tmp_path / "log.txt", command, checkpoints=root, environment=few) as (address, _):
        cookie = {"name": COOKIE, "value": SEEN, "url": address}
        windows = [browser.new_context(), browser.new_context()]
        for window in windows:
            window.add_cookies([cookie])  # type: ignore[list-item]
        first, second = (window.new_page() for window in windows)
        full = "Every place is taken"

        first.goto(f"{address}/glossary?sentence=A+dog+runs.&layer=1")
        expect(first.get_by_text("vocabulary", exact=True)).to_be_visible()
        view = first.url
        second.goto(f"{address}/glossary")
        expect(second.get_by_role("heading")).to_have_text(full)
        expect(first.get_by_role("heading")).to_have_text(full)
        assert first.url == view
        expect(second.get_by_text("vocabulary", exact=True)).to_be_visible()
        windows[1].close()
        expect(first.get_by_text("vocabulary", exact=True)).to_be_visible()
        assert first.url == view
        windows[0].close()
        assert "Traceback" not in (tmp_path / "log.txt").read_text()
