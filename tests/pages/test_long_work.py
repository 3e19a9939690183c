"""Sentences of 500 tokens: every page that computes shows its progress and can be stopped."""

from collections.abc import Iterator

import pytest

from tests.pages.session import Session
from tests.servers import serving
from tests.tiny_models import random_model, sentence_of
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer

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
def app(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Iterator[str]:
    """The app on a deep model that never ends a sentence: minutes of slow steps."""
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
        sentence = sentence_of(tiny_tokenizer, 500)
        session.begin(sentence=sentence, target="b", view="layers")
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
            session.begin(sentence=sentence)
            session.wait_for("Decoding: step")
        third.open(sentence="a", target="b")
        assert third.message_to("headlight.player")
        for session in (first, second):
            session.wait_for_next("Decoding: step")
            assert stopped(session)
        first.press("Translate this sentence", to_the_end=False)
        first.wait_for("Decoding: step")
        assert stopped(first)
