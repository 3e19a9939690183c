import re
from pathlib import Path

import pytest

from tests.pages.conftest import RunApp
from tests.pages.links import ask, said
from tests.tiny_models import random_model, tokenizer_of
from tests.transformer.models.importers.foreign import fairseq
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.models.importers.registry import FORMATS

STORY = [
    "A sentence is cut into pieces", "Other ways to split this text", "A piece is a number",
    "A number becomes a vector", "Its position is added",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny_config: ModelConfig) -> Path:
    root = tmp_path_factory.mktemp("tokens")
    for name in ("unigram", "bpe", "char"):
        tokenizer = tokenizer_of(name)
        config = tiny_config.replace(vocab_size=tokenizer.vocab_size, tie_embeddings="none")
        save_checkpoint(root / name, random_model(config), tokenizer)
    return root


@pytest.fixture
def open_page(open_page: RunApp) -> RunApp:
    return lambda **given: open_page(**{"checkpoint": "unigram", "beam": "1", **given})


@pytest.mark.parametrize("checkpoint", ["unigram", "bpe", "char"])
def test_the_story_is_whole_for_each(open_page: RunApp, checkpoint: str) -> None:
    app = open_page(checkpoint=checkpoint, merge_dropout="0")
    text = said(app)
    assert re.findall(r"^#### (.+)$", text, re.MULTILINE) == STORY
    assert "for 6 words" in text
    assert ("no other way to split it" in text) == (checkpoint != "unigram")
    if checkpoint == "bpe":
        app.slider(key="merge_dropout_widget").set_value(0.5).run()
        assert "no other way to split it" not in said(app)
    for use in ("Source embedding", "Target embedding", "Output embedding"):
        assert use in text


def test_another_cut_is_translated(open_page: RunApp) -> None:
    text = said(open_page(cut="3"))
    assert "From split 1: `" in text
    assert "From split 3: `" in text
    text = said(open_page(cut="1"))
    assert "From split 1" not in text
    text = said(open_page(cut="3", tokens_of="translation"))
    assert "From split 1" not in text


def test_sentence_and_vocabulary_forget_cut_and_token(open_page: RunApp) -> None:
    app = open_page(cut="2", token="105")
    assert "id 105" in said(app)
    ask(app, "A dog runs.")
    assert "cut" not in app.query_params
    assert app.query_params["token"] == "105"
    app.selectbox(key="checkpoint_box").set_value("char").run()
    assert "token" not in app.query_params


def test_each_side_has_its_own_vocabulary(open_page: RunApp, tmp_path: Path) -> None:
    fairseq(tmp_path / "theirs", "pre-norm, nothing shared")
    path = FORMATS["fairseq"].convert(tmp_path / "theirs", tmp_path / "root" / "ours")
    config = load_checkpoint(path).config
    assert config.vocab_size != config.target_vocab_size
    for side, size in (("source", config.vocab_size), ("translation", config.target_vocab_size)):
        app = open_page(root=tmp_path / "root", checkpoint="ours", tokens_of=side)
        assert re.findall(r"^#### (.+)$", said(app), re.MULTILINE) == STORY
        assert f"of {size:,} pieces" in said(app)
        used = [each.value for each in app.caption if each.value.endswith(" embedding")]
        assert used and all(("Source" in each) == (side == "source") for each in used)
