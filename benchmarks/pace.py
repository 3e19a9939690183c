"""Response times of pages in a browser, as ratios to a trivial Streamlit page.

    python benchmarks/pace.py [--rounds 7] [--only NAME ...] [--json]

Every time runs from a click or key to the frame in which the answer is on screen, measured in the
page itself. The page and the trivial one take turns in the same browser, and a figure is the ratio
of their medians, so that other work on the machine slows both. The model has random weights in 6+6
layers of 8 heads.

- cell: the Attention page, until the map of the clicked cell is under the lens.
- sentence: the same page, until the grid shows a sentence that was translated before.
- moment: the same page, until the grid shows another moment of the model's training, loaded and
  translated before.
- step: the player of Translate, one of 40 steps.
- film: the picture of the whole model at 16 + 15 tokens while it plays, milliseconds for a frame
  that it draws.
- progress, stop: a model that never ends a sentence of 500 tokens; seconds from the first of the
  frame until the progress bar, and from a click on Stop until the page says so.
- start: seconds for which the page stays blank on the first visit to a server that is still loading
  its libraries.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import BrowserContext, Locator, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.turns import Figure, report  # noqa: E402
from tests.browser.chromium import FLAGS, find_or_install  # noqa: E402
from tests.servers import serving  # noqa: E402
from tests.snapshots import UPDATES, write_snapshots  # noqa: E402
from tests.tiny_models import SENTENCES, random_model, sentence_of  # noqa: E402
from transformer.checkpoint.folder import save_checkpoint  # noqa: E402
from transformer.config import ModelConfig  # noqa: E402
from transformer.text.tokenizer import train_tokenizer  # noqa: E402

PATIENCE_MS = 300_000
#: Script that runs in the page first.
WATCH = (ROOT / "benchmarks" / "pace.js").read_text("utf-8")
#: URL of each page with a model that never ends a sentence.
WORKING_PAGES = {
    "Translate": "?", "a sample": "?beam=1&sample=on&", "Beam search": "beam?",
    "Attention": "attention?", "Inside a head": "head?", "Tokens": "tokens?",
    "Positions": "positions?part=model&", "Compare": "compare?",
}  # fmt: skip


def answer(page: Page, act: Callable[[], None], ready: str, *arguments: Any) -> float:
    """Return the milliseconds from the click or key of `act` until `ready` of pace.js is true."""
    page.bring_to_front()
    page.evaluate("([ready, args]) => pace.arm(ready, ...args)", [ready, arguments])
    act()
    page.wait_for_function("() => pace.took !== null", polling=20)
    return float(page.evaluate("() => pace.took"))


class Bench:
    """A browser, and servers that start when first needed."""

    def __init__(self, stack: ExitStack, folder: Path, rounds: int) -> None:
        self.folder, self.rounds = folder, rounds
        self._stack = stack
        self.tokenizer = train_tokenizer(SENTENCES, 110)
        self._clicks = 0

    @cached_property
    def context(self) -> BrowserContext:
        """A window with the measuring script."""
        playwright, path = self._stack.enter_context(sync_playwright()), find_or_install()
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        self._stack.callback(browser.close)
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(WATCH)
        return context

    def serve(self, name: str, *command: str, checkpoints: Path | None = None, fresh: bool = False):
        """Start a server; return its URL."""
        command = command or ("-m", "streamlit", "run", "app.py")
        log = self.folder / f"{name}.log"
        server = serving(log, command, checkpoints=checkpoints, fresh=fresh)
        return self._stack.enter_context(server).address

    def save_model(self, name: str, *, endless: bool = False, **sizes: int) -> Path:
        """Write a random model into a folder of its own; return the folder."""
        config = ModelConfig(
            vocab_size=self.tokenizer.vocab_size, output_bias=True, max_positions=600, **sizes
        )
        model = random_model(config)
        if endless:
            assert model.generator.bias is not None
            model.generator.bias[config.eos_id] = -1e4
        save_checkpoint(self.folder / name / name, model, self.tokenizer, metrics={})
        return self.folder / name

    @cached_property
    def app(self) -> str:
        """URL of the app with a model of 6+6 layers of 8 heads."""
        root = self.save_model(
            "base", d_model=64, n_heads=8, d_ff=64, n_encoder_layers=6, n_decoder_layers=6
        )
        return self.serve("app", checkpoints=root)

    @cached_property
    def _trivial(self) -> Page:
        """URL of the trivial page, served by Streamlit alone: without this app's libraries, and
        with garbage collected after every answer.
        """
        command = ("-m", "streamlit", "run", "benchmarks/trivial_app.py")
        page = self.context.new_page()
        page.goto(self.serve("trivial", *command, "--runner.postScriptGC=true", fresh=True))
        page.get_by_role("button", name="Again").wait_for()
        return page

    def trivial(self) -> float:
        """Return the milliseconds of one answer of the trivial page."""
        self._clicks += 1
        button = self._trivial.get_by_role("button", name="Again")
        return answer(self._trivial, button.click, "counted", self._clicks)

    def open(self, address: str, ready: str) -> Page:
        """Open a page and wait until the JavaScript function `ready` returns true."""
        page = self.context.new_page()
        page.goto(address)
        page.wait_for_function(ready)
        return page

    def ratio(self, ask: Callable[[int], float]) -> float:
        """Return the median time of `ask(1)`, `ask(2)`, ... divided by the trivial page's."""
        self.trivial(), ask(0)
        pairs = [(ask(number + 1), self.trivial()) for number in range(self.rounds)]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        return ours / theirs


def remember_two(page: Page, change: Callable[[], object]) -> None:
    """Remember what the grid says now as 0, and after a change as 1."""
    page.evaluate("() => pace.remember(0)")
    change()
    page.wait_for_function("() => pace.said() !== pace.memory[0]")
    page.evaluate("() => pace.remember(1)")


def attention(bench: Bench) -> Iterator[Figure]:
    for tokens, aim in ((30, 1.5), (128, 2.0)):
        first, second = (sentence_of(bench.tokenizer, tokens, at) for at in (0, 3))
        query = f"kind=encoder_self&beam=1&sentence={quote(first)}"
        page = bench.open(f"{bench.app}/attention?{query}", "() => pace.said()")

        def choose(number: int, page: Page = page) -> float:
            name = f"Layer {number % 6 + 1}, head {number % 8 + 1}"
            cell = page.get_by_role("gridcell", name=f"{name}:")
            return answer(page, cell.click, "chosen", name)

        yield Figure(f"cell, {tokens} tokens", bench.ratio(choose), aim, "x")
        box = page.locator("textarea").first
        button = page.get_by_role("button", name="Translate", exact=True)
        box.fill(second)
        remember_two(page, button.click)

        def translate(number: int, page: Page = page) -> float:
            box.fill((first, second)[number % 2])  # noqa: B023
            return answer(page, button.click, "remembered", number % 2)  # noqa: B023

        yield Figure(f"sentence, {tokens} tokens", bench.ratio(translate), aim, "x")
        page.close()


def moments(bench: Bench) -> Iterator[Figure]:
    root = bench.save_model(
        "moments", d_model=64, n_heads=8, d_ff=64, n_encoder_layers=6, n_decoder_layers=6
    )
    write_snapshots(root / "moments")
    address = bench.serve("moments", checkpoints=root)
    for tokens in (30, 128):
        sentence = quote(sentence_of(bench.tokenizer, tokens, 0))
        query = f"kind=encoder_self&beam=1&sentence={sentence}&checkpoint=moments@{UPDATES[1]}"
        page = bench.open(f"{address}/attention?{query}", "() => pace.said()")
        thumb = page.locator(".st-key-time_slider").get_by_role("slider")
        remember_two(page, lambda thumb=thumb: thumb.press("ArrowLeft"))  # type: ignore[misc]

        def scrub(number: int, thumb: Locator = thumb, page: Page = page) -> float:
            key = ("ArrowRight", "ArrowLeft")[number % 2]
            return answer(page, lambda: thumb.press(key), "remembered", number % 2)

        yield Figure(f"moment, {tokens} tokens", bench.ratio(scrub), 2.0, "x")
        page.close()


def steps(bench: Bench) -> Iterator[Figure]:
    target = sentence_of(bench.tokenizer, 40, 5)
    query = f"step=1&sentence={quote('a b c d')}&target={quote(target)}"
    page = bench.open(f"{bench.app}/?{query}", "() => pace.holds('stepped', 1)")
    page.locator(".player").focus()

    def step(number: int) -> float:
        return answer(page, lambda: page.keyboard.press("ArrowRight"), "stepped", number + 2)

    yield Figure("step of 40", bench.ratio(step), 2.0, "x")
    page.close()


def film(bench: Bench) -> Iterator[Figure]:
    source, target = (sentence_of(bench.tokenizer, n, at) for n, at in ((15, 0), (14, 5)))
    query = f"sentence={quote(source)}&target={quote(target)}"
    page = bench.open(f"{bench.app}/floor?{query}", "() => pace.frames() > 0")
    page.get_by_role("button", name="Play", exact=True).click()
    spent, drawn = page.evaluate("() => pace.watched(5000)")
    yield Figure("film, one frame", spent / drawn, 33.0, "ms")
    page.close()


def long_work(bench: Bench) -> Iterator[Figure]:
    root = bench.save_model(
        "endless", endless=True, d_model=32, n_heads=1, d_ff=32, n_encoder_layers=2,
        n_decoder_layers=200,
    )  # fmt: skip
    address = bench.serve("endless", checkpoints=root)
    page = bench.open(f"{address}/?sentence=%20", "() => document.querySelector('textarea')")
    page.add_init_script("pace.notice()")

    def work(place: str, start: int) -> None:
        sentence = sentence_of(bench.tokenizer, 500, start)
        page.goto(f"{address}/{place}sentence={quote(sentence)}")
        page.wait_for_function("() => pace.seen.bar !== undefined")

    work("?", 0)  # loads the model, under a spinner of its own
    answer(page, page.locator(".st-key-stop_work button").click, "stopped")
    for name, place in WORKING_PAGES.items():
        work(place, len(name))
        until_bar = page.evaluate("() => pace.seen.bar - pace.seen.frame") / 1000
        yield Figure(f"progress, {name}", until_bar, 1.0, "s")
        button = page.locator(".st-key-stop_work button")
        yield Figure(f"stop, {name}", answer(page, button.click, "stopped") / 1000, 2.0, "s")
    page.close()


def first_visit(bench: Bench) -> Iterator[Figure]:
    page = bench.context.new_page()
    page.add_init_script("pace.notice()")
    page.goto(bench.serve("first", fresh=True))
    page.wait_for_selector("[data-testid=stMain] canvas")
    yield Figure("start, blank", page.evaluate("() => pace.seen.blank") / 1000, 1.5, "s")
    page.close()


PARTS = {
    "attention": attention, "moment": moments, "step": steps, "film": film, "progress": long_work,
    "start": first_visit,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="answers of each page per figure")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bench = Bench(stack, Path(folder), arguments.rounds)
        report((figure for name in arguments.only for figure in PARTS[name](bench)), arguments.json)


if __name__ == "__main__":
    main()
