import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from figures import paper
from figures.exhibit import Exhibit
from tests.forks import ROOT
from tests.pages.conftest import RunApp
from tests.snapshots import UPDATES, write_snapshots
from tests.test_calls import check_program
from tests.tiny_models import random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from ui.export import download
from ui.frame.page import Page, all_pages

SENTENCE = "The cat sat on <b>it</b> 'and' \"=1+1\"."

#: Pages without a figure, or none before a run is started or without a study.
WITHOUT = {"tours", "training", "heads"} | {
    page.path
    for page in all_pages()
    if page.figure is None and not (ROOT / f"ui/{page.path}/exhibits.py").exists()
}

#: Other views of a page than the one that it opens on, but those whose figures test_calls.py makes.
VIEWS: dict[str, tuple[dict[str, str], ...]] = {
    "translate": (
        {"units": "words", "layer": "2", "prefix": "8.9"},
        {"target": "Die Katze."},
        {"view": "layers", "sample": "on"},
        {"view": "why", "step": "2", "why": "9.31"},
        {"cell": "effect", "layer": "2", "kind": "cross", "units": "words"},
    ),
    "attention": (
        {"display": "matrix", "layer": "2", "queries": "2-3", "sample": "on", "top_k": "5"},
        {"cell": "norm", "words_only": "on", "layer": "1"},
        {"cell": "effect", "layer": "1", "kind": "decoder_self", "display": "grid"},
    ),
    "compare": (
        {"beside": "difference", "layer": "1", "other_layer": "2", "head": "1"},
        {"beside": "grid", "pairing": "sentences", "second": "A {dog}.", "units": "words"},
        {"beside": "lines", "kind": "encoder_self", "heads": "1.1-2.3", "follow": "on"},
        {"topic": "heads", "kind": "decoder_self"},
        {"beside": "difference", "layer": "1", "cell": "effect"},
        {"beside": "differences", "cell": "contribution"},
        {"topic": "numbers", "pairing": "sentences", "second": "A dog runs."},
        {"beside": "differences", "kind": "encoder_self", "layer": "2", "units": "words"},
        {"topic": "steps", "step": "2", "layer": "2", "pairing": "sentences", "second": "A dog."},
        {"topic": "beam", "node_a": "1.2", "dropped": "on"},
        {"topic": "head", "kind": "decoder_self", "other_layer": "2", "query": "2"},
        {"topic": "tokens", "tokens_of": "translation"},
        {"topic": "positions", "positions": "20", "side": "Decoder"},
    ),
    "family": (
        {"checkpoint": "reader", "sentence": "The [MASK] sat on the mat."},
        {"checkpoint": "writer", "more": "5", "seed": "2"},
        {"part": "stacks", "layer_one": "2"},
    ),
}
CASES = [
    pytest.param(spec, query, id=f"{spec.path}{index}")
    for spec in all_pages()
    if spec.path not in WITHOUT
    for index, query in enumerate(({}, *VIEWS.get(spec.path, ())))
]

#: Figures that only models of other kinds have.
KINDS = [
    pytest.param(spec, {**query, "checkpoint": name}, id=f"{spec.path}-{name}")
    for spec in all_pages()
    for page, name, query in (
        ("family", "one", {"part": "stacks"}), ("positions", "learned", {}),
        ("positions", "relative", {}), ("positions", "stored", {}),
    )
    if spec.path == page
]  # fmt: skip
#: Cases without a figure of the model on screen.
NOT_OF_IT = {"complexity0", "complexity1", "complexity2", "positions0", "family3"}


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Callable[[], Exhibit], str]]:
    found: dict[str, tuple[Callable[[], Exhibit], str]] = {}
    draw = download._button

    def listening(make: Any, each: Any, key: str, name: str, *rest: Any) -> None:
        found[key] = make, name
        draw(make, each, key, name, *rest)

    monkeypatch.setattr(download, "_button", listening)
    return found


def in_a_thread(make: Callable[[], Exhibit]) -> Exhibit:
    """Call a function outside any session, as Streamlit's downloads do."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


@pytest.fixture(scope="module")
def in_time(
    random_checkpoints: Path, tiny_parser: Path, family: Path, tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    root = tmp_path_factory.mktemp("in-time")
    for folder in (random_checkpoints / "alpha", tiny_parser, *family.iterdir()):
        shutil.copytree(folder, root / folder.name)
    for kind in ("learned", "relative", "stored"):
        config = tiny_config.replace(positions=kind, max_positions=60)
        save_checkpoint(root / kind, random_model(config), tiny_tokenizer)
    for folder in root.iterdir():
        write_snapshots(folder)
    return root


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("spec", "query"), [*CASES, *KINDS])
def test_every_figure_can_be_taken_away_at_a_moment_of_training(
    run_app: RunApp, offered: dict[str, tuple[Callable[[], Exhibit], str]], in_time: Path,
    tiny_parser: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, spec: Page,
    query: dict[str, str],
) -> None:  # fmt: skip
    at = "" if spec is all_pages()[0] else spec.path
    whole = {"parsing": tiny_parser.name, "family": "reader"}.get(spec.path, "alpha")
    name = f"{query.get('checkpoint', whole)}@{UPDATES[1]}"
    # A small beam: the tree of a large one takes long to draw.
    start = {"sentence": SENTENCE, "beam": "2", "other": f"two@{UPDATES[-1]}"}
    run_app(in_time, at=at, **{**start, **query, "checkpoint": name})
    assert offered, "a page without anything to take away"
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(in_time))
    if query:  # drawing takes most of the time, and is the same for other settings
        monkeypatch.setattr(paper, "to_svg", lambda made: b"<svg/>")
    of_it = False
    for key, (make, file_name) in offered.items():
        made = in_a_thread(make)
        assert made.name == file_name, "the file is called what the figure is called"
        for form in download.FORMATS:
            if form.ending not in ("png", "pdf", "svg"):  # a page holds the drawing
                assert form.write(made), (key, form.ending)
        assert paper.to_svg(made)
        check_program(made)
        of_it |= f"path_of({name!r})" in made.snippet
    assert of_it != (request.node.callspec.id in NOT_OF_IT)
