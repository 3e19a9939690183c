import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from tests.forks import ROOT
from tests.tiny_models import random_model, uneven_model
from tests.ui.components.test_packing import JSON
from tests.views import make_view
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.models.catalogue import Entry, ModelRef
from transformer.positions import sinusoidal
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from transformer.worker.job import Job
from ui.attention.maps import AttentionChoice, maps_of
from ui.compare import pairing, views
from ui.compare.choice import readers, target_language, warning
from ui.compare.texts import (
    Text,
    apart,
    text_of,
    where_they_differ,
    why_not_subtracted,
)
from ui.compare.views import matching, published, sentences_for
from ui.core.examples import examples_for
from ui.core.view import View
from ui.frame.beside import Setup
from ui.positions.exhibits import own_positions
from ui.tokens.views import pieces_shown, read_trace
from ui.work.lru import Lru
from ui.work.results import load

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
    tmp_path: Path, tiny_checkpoint: Path, tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> Setup:  # fmt: skip
    save_checkpoint(tmp_path / "other", uneven_model(tiny_tokenizer), tiny_tokenizer)
    monkeypatch.setattr(views, "sentences_for", lambda setup: SENTENCES)
    left, right = (
        make_view(path, "A dog.", beam_size=1) for path in (tiny_checkpoint, tmp_path / "other")
    )
    return Setup("models", left, right)


def test_stopped_work_ends_alike_if_resumed(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(Job[object]):
        def __init__(self, limit: int = sys.maxsize) -> None:
            super().__init__()
            self.limit, self.seen = limit, list[int]()

        def __call__(self, step: int, most: int) -> None:
            super().__call__(step, most)
            if len(self.seen) == self.limit:
                raise InterruptedError
            self.seen.append(self.progress[0])

    for view in setup.views:
        load(view.request)  # which reports, too
    monkeypatch.setattr("ui.work.results.CACHE", Lru(64 * 2**20))
    job = Watched()
    job.start(lambda _: matching(setup, "encoder_self")).future.result(60)
    seen = [number for number in job.seen if number > 0]
    assert set(seen) == {1, 2, 3}
    # Each kind and layer of the left asks once more than the steps of decoding do.
    assert min(seen.count(number) for number in set(seen)) >= 2 + 3 + 3
    wanted = {kind: matching(setup, kind) for kind in ATTENTION_KINDS}
    for share in (0.0, 0.37, 0.99):
        fresh = Lru(64 * 2**20)
        monkeypatch.setattr("ui.work.results.CACHE", fresh)
        limit = int(share * len(job.seen))
        cut = Watched(limit).start(lambda _: matching(setup, "encoder_self"))
        assert isinstance(cut.future.exception(60), InterruptedError)
        assert compared(fresh) == job.seen[limit] - 1  # an unfinished sentence is not kept
        for kind in ATTENTION_KINDS:
            found, whole = matching(setup, kind), wanted[kind]
            assert found is not None and whole is not None
            assert found.pairs == whole.pairs
            np.testing.assert_array_equal(found.values, whole.values)
        assert compared(fresh) == len(SENTENCES)


def compared(cache: Lru) -> int:
    return sum(isinstance(key, tuple) and key[0] == "alike" for key in cache)


WORDS = ("▁The", "▁ani", "mal", "▁was", "▁tired")
LEFT = make_trace(S=6, T=5, n_heads=3, src_tokens=WORDS)


def right(words: tuple[str, ...], seed: int = 1, **changes: int) -> Trace:
    sizes = {"T": 5, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 4} | changes
    return make_trace(S=len(words) + 1, seed=seed, src_tokens=words, **sizes)


def choice(
    kind: str, units: str = "tokens", cell: tuple[int | None, int | None] = (0, 0)
) -> AttentionChoice:
    return AttentionChoice(kind, "matrix", units, cell=cell)  # type: ignore[arg-type]


def test_the_same_words_line_up_as_tokens_or_as_words() -> None:
    for kind in ATTENTION_KINDS:  # whatever the depths are
        assert pairing.fit_of(LEFT, right(WORDS), kind, "tokens").units == "tokens"
    other = right(("▁T", "he", "▁animal", "▁was", "▁tir", "ed"))
    fit = pairing.fit_of(LEFT, other, "encoder_self", "tokens")
    assert fit.units == "words" and "compares whole words" in fit.why
    assert pairing.fit_of(LEFT, other, "encoder_self", "words") == replace(fit, why="")
    assert pairing.labels(LEFT, "source", "words") == pairing.labels(other, "source", "words")
    fit = pairing.fit_of(LEFT, right((*WORDS, "▁now")), "encoder_self", "tokens", by_place=True)
    assert fit.units == "" and "4 and 5 words" in fit.why
    assert not fit.helps  # another translation does not change the source


def test_one_changed_word_lines_up_by_place_only_where_that_is_asked_for() -> None:
    other = right((*WORDS[:-1], "▁wide"))
    assert pairing.fit_of(LEFT, other, "encoder_self", "tokens").units == ""
    assert pairing.fit_of(LEFT, other, "encoder_self", "tokens", by_place=True).units == "tokens"
    all_new = right(("▁x", "▁y", "z", "▁w", "▁v"))
    assert pairing.fit_of(LEFT, all_new, "encoder_self", "tokens", by_place=True).units == ""
    pair = [maps_of(each, "encoder_self", "tokens") for each in (LEFT, other)]
    assert "same position" in pairing.changed_places(*pair)
    assert pairing.changed_places(*[maps_of(LEFT, "cross", "words")] * 2) == ""


def test_other_translations_do_not_line_up_until_one_is_followed() -> None:
    other = right(WORDS, T=4)
    for kind in ("decoder_self", "cross"):
        fit = pairing.fit_of(LEFT, other, kind, "tokens")  # type: ignore[arg-type]
        assert fit.units == "" and fit.helps
        assert "cannot be paired" in fit.why
    assert pairing.fit_of(LEFT, other, "encoder_self", "tokens").units == "tokens"
    followed = replace(other, forced=True, text=LEFT.text)
    assert not pairing.fit_of(LEFT, followed, "cross", "tokens").helps


def test_a_difference_is_of_the_maps_that_each_side_shows() -> None:
    other = right((*WORDS[:-1], "▁wide"), n_heads=2)
    maps = maps_of(LEFT, "encoder_self", "tokens"), maps_of(other, "encoder_self", "tokens")
    choices = choice("encoder_self", cell=(2, 1)), choice("encoder_self", cell=(0, None))
    there = pairing.difference_map(*maps, choices)
    mean = other.encoder_self[0].mean(axis=0, dtype="f8").astype("f4")
    np.testing.assert_array_equal(there.weights, LEFT.encoder_self[2, 1] - mean)
    assert there.query_tokens[4] == "▁tired | ▁wide"
    assert there.query_tokens[0] == "▁The"
    back = pairing.difference_map(maps[1], maps[0], (choices[1], choices[0]))
    np.testing.assert_array_equal(there.weights, -back.weights)
    assert not pairing.difference_map(maps[0], maps[0], (choices[0], choices[0])).weights.any()


def test_the_same_cell_is_shown_on_both_sides() -> None:
    left = maps_of(make_trace(S=6, T=5, n_decoder_layers=3, n_heads=4), "cross", "tokens")
    other = maps_of(make_trace(S=6, T=5, n_decoder_layers=2, n_heads=6), "cross", "tokens")
    chosen = choice("cross", cell=(2, 3)), choice("cross")
    assert [each.cell for each in pairing.joined_choices((left, other), chosen)] == [(None, 3)] * 2
    assert "A 3 layers of 4 and B 2 layers of 6 heads" in pairing.without_partner(left, other)
    assert not pairing.without_partner(left, left)


def test_words_that_are_cut_differently_are_named() -> None:
    left, right, other = (
        read_trace(make_trace(S=len(words) + 1, T=3, src_tokens=words), "source")
        for words in (("▁The", "▁ani", "mal"), ("▁The", "▁a", "ni", "mal"), ("▁dog", "▁runs"))
    )
    assert "1 of 2 shared word is split differently" in apart(left, right)
    assert "`animal` is `ani·mal` in A and `a·ni·mal` in B" in apart(left, right)
    assert "All 2 shared words are split in the same way" in apart(left, left)
    assert "no word in common" in apart(left, other)


def test_foreign_pieces_say_what_their_trace_says() -> None:
    trace = make_trace(S=4, T=3, src_tokens=("▁The", "▁ani", "mal"))
    shown = pieces_shown(read_trace(replace(trace, src_unknown=(1,)), "source"), None)
    assert [piece.piece for piece in shown] == list(trace.src_tokens)
    assert [piece.mark for piece in shown] == ["", "unknown", "", "special"]
    assert [piece.word for piece in shown] == [0, 1, 1, 2]
    without = pieces_shown(read_trace(replace(trace, src_ids=(-1,) * 4), "source"), None)
    assert "id" not in without[0].note
    no_source = replace(trace, src_tokens=(), src_ids=())
    assert read_trace(no_source, "source").pieces == trace.tgt_tokens
    assert not read_trace(no_source, "translation").pieces


def test_positions_of_models_differ_where_shapes_agree(tiny_tokenizer: Tokenizer) -> None:
    shapes = {
        "plain": {}, "layout": {"position_layout": "concatenated"},
        "learned": {"positions": "learned", "max_positions": 12}, "wide": {"d_model": 32},
        "stored": {"positions": "stored"},
    }  # fmt: skip
    found = {}
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=16, n_heads=2, d_ff=20, n_encoder_layers=1,
        n_decoder_layers=1, max_positions=40,
    )  # fmt: skip
    for name, more in shapes.items():
        model = random_model(config.replace(**more))
        if name == "stored":
            model.tgt_positions.table.copy_(model.tgt_positions.table.half())
        found[name] = own_positions(Translator(model, tiny_tokenizer), "translation", 20)
    tables = {name: each.table for name, each in found.items()}
    np.testing.assert_array_equal(tables["plain"], sinusoidal(20, 16).numpy())
    assert not why_not_subtracted(tables["plain"], tables["layout"])
    assert "16 and 32 dimensions" in why_not_subtracted(tables["plain"], tables["wide"])
    assert "B has only 12 positions" in why_not_subtracted(tables["plain"], tables["learned"])
    assert "concatenated" in found["layout"].about and "learned" in found["learned"].about
    rounded = np.abs(tables["stored"] - tables["plain"]).max()
    assert 1e-5 < rounded < 1e-3 and f"{rounded:.1e}" in found["stored"].about
    assert "sinusoids rounded to 16 bits each, as float16" in found["stored"].about


def text(*words: str, total: float = -2.0) -> Text:
    return Text(words, tuple(-0.5 for _ in words), tuple((i,) for i in range(len(words))), total, 9)


def test_a_word_is_as_probable_as_all_of_its_pieces() -> None:
    trace = replace(
        make_trace(S=4, T=4),
        predicted_tokens=("▁Stra", "ße", "▁da", "</s>"),
        log_probs=np.array([-0.5, -0.25, -1, -2], dtype=np.float32),
    )
    found = text_of(trace)
    assert found.words == ("Straße", "da") and found.source == ("the", "cat", "sat")
    assert found.log_probs == (-0.75, -1.0)
    assert found.groups == ((0, 1), (2,))
    assert found.total == -3.75  # </s> included
    cut = replace(trace, predicted_tokens=("▁Stra", "ße", "▁da", "▁x"), complete=False)
    assert text_of(cut).words == ("Straße", "da", "x")


def test_letters_are_compared_one_by_one() -> None:
    trace = replace(make_trace(S=4, T=4), predicted_tokens=("▁", "c", "b", "</s>"))
    found = text_of(trace, "token")
    assert found.words == ("▁", "c", "b") and found.source == ("▁the", "▁cat", "▁sat")
    assert found.log_probs == tuple(map(float, trace.log_probs[:3]))
    other = text_of(replace(trace, predicted_tokens=("▁", "c", "a", "</s>")), "token")
    assert "token 3" in where_they_differ(found, other)


@pytest.mark.parametrize(("one", "other", "facts"), [
    (text("das", "Tier", "*war*"), text("das", "Tier", "ging"),
     ("word 3: A writes `*war*`", "(log p −0.50), B `ging` (−0.50)")),
    (text("a"), text("b"), ("Even the first word differs",)),
    (text("a", "b"), text("a"), ("diverge at word 2", "B nothing more")),
    (text("a"), text("a"), ("same probability",)),
    (text("a", total=-1.5), text("a", total=-3.0), ("more probable under A, by 1.50 nats",)),
    (text(), text(), ("Neither",)),
    (text("a"), text(), ("Only A",)),
    (text(), text("a"), ("Only B",)),
])  # fmt: skip
def test_the_sentence_names_the_first_word_that_differs_or_who_finds_it_likelier(
    one: Text, other: Text, facts: tuple[str, ...]
) -> None:
    said = where_they_differ(one, other)
    assert all(fact in said for fact in facts), said
    assert "B follows A’s words" in where_they_differ(text("a"), text("a"), followed=True)


def test_published_figures_are_read_and_nothing_else() -> None:
    metrics = {
        "tests": {
            "test_2016": {
                "bleu": 40.07, "chrf": 64.7, "lc_tok_bleu": 40.4, "exact_match": 0.07,
                "measured": {"setting": "beam 4"},
            },
            "reverse_test": {"bleu": 0.0, "exact_match": 1.0},
            "odd": {"bleu": "many", "chrf": float("nan"), "lc_tok_bleu": True},
            "worse": 3,
        },
        "other_decodings": [{"tests": {"test_2016": {"bleu": 41.0}, "more": {"bleu": 9}}}],
    }  # fmt: skip
    assert published(metrics) == {
        ("test_2016", "sacreBLEU, cased"): "40.1 (beam 4)",
        ("test_2016", "lc_tok_bleu"): "40.4 (beam 4)",
        ("test_2016", "chrF"): "64.7 (beam 4)",
        ("reverse_test", "exactly right"): "100.00% (setting not recorded)",
        ("more", "sacreBLEU, cased"): "9.0 (setting not recorded)",
    }


@given(JSON | st.floats())
def test_no_metrics_file_breaks_the_table(anything: object) -> None:
    found = published({"tests": anything})
    assert all(isinstance(value, str) for value in found.values())
    assert published(anything) == {} or isinstance(anything, dict)  # type: ignore[arg-type]
