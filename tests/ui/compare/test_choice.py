"""The other side, the sentence that both know, and matching heads, which can be stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forks import ROOT
from tests.tiny_models import uneven_model
from tests.views import make_view
from transformer.catalogue import Entry, ModelRef
from transformer.checkpoint.folder import save_checkpoint
from transformer.text.tokenizer import Tokenizer
from transformer.types import ATTENTION_KINDS
from ui.compare import matching as module
from ui.compare.choice import readers
from ui.compare.matching import matching, sentences_for
from ui.compare.setup import target_language, warning
from ui.core.examples import examples_for
from ui.core.view import View
from ui.frame.twice import Setup
from ui.work.lru import Lru
from ui.work.models import load

EN_DE, EN_FR, DE_EN = "everyday-en-de", "everyday-en-fr", "everyday-de-en"
CAPTIONS, LETTERS = "multi30k-en-de", "reverse-toy"


def setup_of(left: str, right: str) -> Setup:
    one, other = (View(Entry(name, ModelRef(Path())), "cpu", "x") for name in (left, right))
    return Setup("models", one, other)


def test_sides_have_their_models_names_for_people() -> None:
    setup = setup_of("mine-fi-en", "ours-de-fr")
    assert setup.names == ("Finnish → English, mine-fi-en", "German → French, ours-de-fr")
    assert all(name in setup.about for name in setup.names)
    assert setup_of("same", "same").names == ("A", "B")


def test_readers_of_the_same_come_first_and_of_these_the_same_languages() -> None:
    names = (EN_FR, CAPTIONS, LETTERS, EN_DE, DE_EN)
    usable: dict[str, dict[str, Any]] = {name: {} for name in names}
    assert readers(EN_DE, usable) == (CAPTIONS, EN_FR, EN_DE, DE_EN, LETTERS)
    # Before one that only reads and comes earlier in the alphabet.
    assert readers(EN_FR, {**usable, "bert-everyday": {}})[0] == EN_DE
    # The others do not read letters, or German.
    assert all(readers(name, usable)[0] == name for name in (LETTERS, DE_EN))
    german = {"training": {"recipe": {"data": {"src": "de"}}}}
    assert readers(DE_EN, {**usable, "mine": german})[0] == "mine"
    assert readers("alpha", {"beta": {}, "alpha": {}}) == ("beta", "alpha")


def test_examples_are_english_where_no_language_is_known_and_each_has_a_counterpart() -> None:
    for source in (..., 3, ["de"], "xx"):
        metrics = {} if source is ... else {"training": {"recipe": {"data": {"src": source}}}}
        assert examples_for("mine", metrics).language == "en"
    assert examples_for("mine", {"training": 3}).language == "en"
    for name in (EN_DE, CAPTIONS, LETTERS, DE_EN, "multi30k-de-en"):
        for item in examples_for(name).items:  # with one change
            one, other = item.sentence.split(), item.beside.split()
            assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_sentences_to_match_over_are_the_examples_of_both_sides_once_each() -> None:
    found = sentences_for(setup_of(EN_DE, CAPTIONS))
    assert len(found) == len(set(found)) == 2 * (6 + 6 - 1)  # one example is in both


@pytest.mark.parametrize(("metrics", "language"), [
    ({"imported": {"format": "marian", "source": "models/opus-mt-en-fi"}}, "fi"),
    ({}, None),
    ({"training": 3}, None),
    ({"imported": {"source": ["x"]}}, None),
    ({"training": {"recipe": {"data": {"src": "en", "tgt": "<b>"}}}}, None),
])  # fmt: skip
def test_a_record_or_name_says_it(metrics: dict[str, Any], language: str | None) -> None:
    found = View(Entry("model", ModelRef(Path()), metrics=metrics), "cpu", "x")
    assert target_language(found) == language
    french = make_view(ROOT / "checkpoints" / EN_FR)
    assert bool(warning(Setup("models", found, french))) == (language == "fi")


def test_the_recipe_says_what_a_checkpoint_writes_and_only_another_language_is_warned_of() -> None:
    german, captions, french, toy = (
        make_view(ROOT / "checkpoints" / name) for name in (EN_DE, CAPTIONS, EN_FR, LETTERS)
    )
    languages = [target_language(view) for view in (german, captions, french, toy)]
    assert languages == ["de", "de", "fr", None]
    said = warning(Setup("models", german, french))
    assert "A writes German" in said and "write French" in said
    assert not any(warning(Setup("models", german, other)) for other in (captions, toy))


SENTENCES = ("A dog.", "The cat sat.", "She sleeps.")


@pytest.fixture
def setup(
    tmp_path: Path,
    tiny_checkpoint: Path,
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> Setup:
    """Two models of unequal depths and head counts, and few sentences."""
    save_checkpoint(tmp_path / "other", uneven_model(tiny_tokenizer), tiny_tokenizer)
    monkeypatch.setattr(module, "sentences_for", lambda setup: SENTENCES)
    left, right = (
        make_view(path, "A dog.", beam_size=1) for path in (tiny_checkpoint, tmp_path / "other")
    )
    return Setup("models", left, right)


def test_stopped_work_ends_alike_if_resumed(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for view in setup.views:
        load(view.request)  # which reports, too
    monkeypatch.setattr("ui.work.results.CACHE", Lru(64 * 2**20))
    matching(setup, "encoder_self", lambda step, most: seen.append(step))
    assert set(seen) == {1, 2, 3}
    # Each kind and layer of the left asks once more than the steps of decoding do.
    assert min(seen.count(number) for number in set(seen)) >= 2 + 3 + 3
    wanted = {kind: matching(setup, kind) for kind in ATTENTION_KINDS}
    for share in (0.0, 0.37, 0.99):
        fresh = Lru(64 * 2**20)
        monkeypatch.setattr("ui.work.results.CACHE", fresh)
        limit, reports = int(share * len(seen)), 0

        def report(step: int, most: int, limit: int = limit) -> None:
            nonlocal reports
            reports += 1
            if reports > limit:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            matching(setup, "encoder_self", report)
        assert compared(fresh) == seen[limit] - 1  # an unfinished sentence is not kept
        for kind in ATTENTION_KINDS:
            found, whole = matching(setup, kind), wanted[kind]
            assert found is not None and whole is not None
            assert found.pairs == whole.pairs
            np.testing.assert_array_equal(found.values, whole.values)
        assert compared(fresh) == len(SENTENCES)


def compared(cache: Lru) -> int:
    return sum(isinstance(key, tuple) and key[0] == "alike" for key in cache)
