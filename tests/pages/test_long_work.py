import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.conftest import RunApp
from tests.pages.links import ask
from tests.pages.session import Session
from tests.servers import serving, wait_for_empty
from tests.tiny_models import random_model, sentence_of
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.files import safe
from transformer.models import catalogue
from transformer.text.tokenizer import Tokenizer
from transformer.worker import tracing
from ui.core.view import Request

#: Every page that computes with a model, and the settings needed.
PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "Translate": ("", {}),
    "a sample": ("", {"beam": "1", "sample": "on"}),
    "Beam search": ("beam", {}),
    "Attention": ("attention", {}),
    "Inside a head": ("head", {}),
    "Tokens": ("tokens", {}),
    "Positions": ("positions", {"part": "model"}),
    "Compare": ("compare", {}),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Iterator[str]:
    """The app on a deep model that never ends a sentence, so steps take minutes."""
    folder = tmp_path_factory.mktemp("long")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=32, n_heads=1, d_ff=32, n_encoder_layers=2,
        n_decoder_layers=100, output_bias=True, max_positions=600,
    )  # fmt: skip
    model = random_model(config)
    assert model.generator.bias is not None
    model.generator.bias[config.eos_id] = -1e4
    save_checkpoint(folder / "root" / "endless", model, tiny_tokenizer, metrics={})
    with serving(folder / "log.txt", checkpoints=folder / "root") as (address, _):
        yield address


@pytest.fixture
def app(shared: str) -> str:
    wait_for_empty(shared)
    return shared


def stopped(session: Session) -> bool:
    session.press("Stop")
    return any("Stopped." in element.alert.body for element in session.elements)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_progress_and_stops(app: str, tiny_tokenizer: Tokenizer, name: str) -> None:
    page, settings = PAGES[name]
    with Session(app) as session:
        session.begin(page, sentence=sentence_of(tiny_tokenizer, 500, len(name)), **settings)
        session.wait_for("Decoding: step")
        assert stopped(session)
        assert not any(element.progress.text for element in session.elements)
        # This browser has not drawn the sidebar yet, so it has only what the stopped run says.
        assert "endless" in [each.selectbox.raw_value for each in session.elements]


def test_work_in_a_fragment_shows_progress_in_the_frame_and_stops(
    app: str, tiny_tokenizer: Tokenizer
) -> None:
    with Session(app) as session:
        session.begin(sentence=sentence_of(tiny_tokenizer, 500), target="b", view="layers")
        session.wait_for("Decoding: step")
        place = session.progress_at
        for _ in range(2):
            assert stopped(session)
            session.press("Continue", to_the_end=False)
            session.wait_for("Decoding: step")
            assert session.progress_at == place
            # The sidebar is outside the fragment.
            assert not any(each.selectbox.label for each in session.elements)


def test_long_sentences_take_turns_short_ones_go_on(app: str, tiny_tokenizer: Tokenizer) -> None:
    sentences = [sentence_of(tiny_tokenizer, 499, 5 * number + 2) for number in range(2)]
    with Session(app) as first, Session(app) as second, Session(app) as third:
        for session, sentence in zip((first, second), sentences, strict=False):
            session.begin(sentence=sentence, beam="10")  # so long that none ends here
            session.wait_for("Decoding: step")
        third.open(sentence="a", target="b")
        assert third.message_to("headlight.player")
        for session in (first, second):
            session.wait_for_next("Decoding: step")
            assert stopped(session)
        first.press("Translate this sentence", to_the_end=False)
        first.wait_for("Decoding: step")
        assert stopped(first)


def test_a_rerun_does_no_more_than_it_must(
    run_app: RunApp, random_checkpoints: Path, nothing_cached: None, recorded: Any,
    forward_passes: Callable[[], int],
) -> None:  # fmt: skip
    started, keys = recorded(threading.Thread, "start"), recorded(Request, "__init__")
    listed = [recorded(os, name) for name in ("scandir", "listdir")]
    marks = [recorded(module, "fingerprint") for module in (catalogue, safe, tracing)]
    n_checkpoints = sum(each.is_dir() for each in random_checkpoints.iterdir())
    for page in ("", "beam", "attention", "head", "tokens", "positions", "compare"):
        shown, query = (2, {"pairing": "models"}) if page == "compare" else (1, {})
        app = run_app(at=page, **query)
        for new in (False, True):
            forward_passes()
            for each in (started, keys, *listed, *marks):
                each.clear()
            _ = ask(app, f"Two dogs run through the {page} garden.") if new else app.run()
            jobs = sum(each["self"].name == "headlight-job" for each in started)
            drawn = new and page != "positions"
            assert (jobs > 0) == (forward_passes() > 0) == drawn and jobs <= 5, page
            assert len(keys) == (2 if page == "compare" else 1), page
            # The root, and every checkpoint for its links and for its files' marks, unless a run
            # did so a moment ago. The models on screen are looked at in any case.
            places = [str(each.get("path")) for calls in listed for each in calls]
            scans = sum(place.startswith(str(random_checkpoints)) for place in places)
            assert scans <= 1 + 2 * n_checkpoints + shown, page
            assert shown <= sum(map(len, marks)) <= n_checkpoints + shown, page
