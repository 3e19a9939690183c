"""Long work that is stopped."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.servers import serving
from tests.tiny_models import random_model, sentence_of
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer

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
    page.get_by_role("gridcell").first.wait_for(timeout=300_000)  # another view asks for other work
    expect(page.get_by_test_id("stProgress")).to_have_count(0)
