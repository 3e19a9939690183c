import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from tests.tiny_models import SENTENCES
from transformer.commands.options import ALPHAS, BEAMS
from transformer.evaluation import tune
from transformer.evaluation.scores import evaluate_files, language_of, lc_tok, lc_tok_bleu, score
from transformer.search.request import PAPER_DECODING, Decoding, default_decoding
from transformer.training.data import DataError
from transformer.translator import Translator
from transformer.types import InputError

ENGLISH, GERMAN = SENTENCES[::2], SENTENCES[1::2]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    src, ref = tmp_path / "test.en.gz", tmp_path / "test.de"
    src.write_bytes(gzip.compress("".join(f"{line}\n" for line in ENGLISH).encode()))
    ref.write_text("".join(f"{line}\n" for line in GERMAN), encoding="utf-8")
    return src, ref


def test_bleu_is_sacrebleus_and_the_case_counts_in_it_but_not_in_lc_tok_bleu() -> None:
    worse = [line.replace("war", "ist") for line in GERMAN]
    assert score(worse, GERMAN).bleu == sacrebleu.corpus_bleu(worse, [GERMAN]).score
    assert score(worse, GERMAN).chrf == sacrebleu.corpus_chrf(worse, [GERMAN]).score
    assert score(iter(worse), iter(GERMAN)) == score(worse, GERMAN)
    assert score(worse, GERMAN).lc_tok_bleu is None
    for lines in (GERMAN, [line.lower() for line in GERMAN]):
        scores = score(lines, GERMAN, lc_tok_language="de")
        assert (scores.bleu == pytest.approx(100)) == (lines is GERMAN)
        assert scores.lc_tok_bleu == pytest.approx(100) and scores.sentences == 5
    assert "case:mixed" in scores.signature and "tok:13a" in scores.signature
    treated = ["ein hund rennt weg ."], [["ein hund läuft weg ."]]
    expected = sacrebleu.corpus_bleu(*treated, tokenize="none", force=True).score
    assert lc_tok_bleu(["Ein Hund rennt weg."], ["Ein Hund läuft weg."], "de") == expected


@pytest.mark.parametrize(("language", "line", "tokens"), [
    ("de", "Ein Hund, der „Bello“ heißt.", 'ein hund , der " bello " heißt .'),
    ("de", "Der LKW-Fahrer hält um 12.30 Uhr an.", "der lkw-fahrer hält um 12.30 uhr an ."),
    ("de", "ÄPFEL & Birnen", "äpfel & birnen"),
    ("fr", "L’homme dit : « Oui ! »", 'l\' homme dit : " oui ! "'),
    # The final full stop and quotation mark change places.
    ("fr", 'Un café appelé "Chez Max."', 'un café appelé " chez max " .'),
    ("en", 'A cafe called "At Max\'s".', 'a cafe called " at max \'s . "'),
    ("en", "A man's hat…", "a man 's hat ..."),
    ("de", "", ""),
])  # fmt: skip
def test_lines_are_treated_as_the_perl_scripts_do(language: str, line: str, tokens: str) -> None:
    assert lc_tok(language)(line) == tokens


@pytest.mark.parametrize(("hypotheses", "references", "options", "message"), [
    (["a"], ["a", "b"], {}, "1 translations and 2 references"),
    ([], [], {}, "no sentences"),
    (["a"], ["a"], {"lc_tok_language": "xx"}, "needs the target language.*'xx'"),
])  # fmt: skip
def test_what_cannot_be_scored(
    hypotheses: list[str], references: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        score(hypotheses, references, **options)


@pytest.mark.parametrize(
    ("name", "language"),
    [("val.de.gz", "de"), ("a.b.FR", "fr"), ("test", None), ("x.txt", None), ("d/t.en", "en")],
)
def test_the_language_is_in_the_files_name(name: str, language: str | None) -> None:
    assert language_of(name) == language


def test_files_are_scored(tiny_translator: Translator, files: tuple[Path, Path]) -> None:
    seen: list[tuple[int, int]] = []
    result = evaluate_files(
        tiny_translator, *files, beam_size=2, protocol="multi30k-lc-tok",
        on_translated=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    translations = tiny_translator.translate(ENGLISH, beam_size=2)
    assert result.hypotheses == tuple(each.text for each in translations)
    assert result.scores == score(result.hypotheses, GERMAN, lc_tok_language="de")
    assert result.target_tokens == sum(len(each.log_probs) for each in translations)
    assert result.to_dict()["tokens_per_second"] > 0
    assert seen[-1] == (5, 5)
    assert {"bleu", "chrf", "signature", "sentences", "lc_tok_bleu"} <= set(result.to_dict())


def test_files_that_do_not_fit(tiny_translator: Translator, files: tuple[Path, Path]) -> None:
    src, ref = files
    with pytest.raises(DataError, match=r"nowhere\.de"):
        evaluate_files(tiny_translator, src, ref.with_name("nowhere.de"))
    ref.write_text("Eine Zeile.\n")
    with pytest.raises(DataError, match=r"test\.en\.gz has 5 lines but .*test\.de has 1"):
        evaluate_files(tiny_translator, src, ref)
    for options, why in (
        ({"protocol": "x"}, "protocol 'x' is not multi30k-lc-tok"),
        ({"protocol": "multi30k-lc-tok", "language": "xx"}, "'xx'"),
    ):
        with pytest.raises(InputError, match=why):
            evaluate_files(tiny_translator, src, ref, **options)
    for path in files:
        path.write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        evaluate_files(tiny_translator, src.rename(src.with_suffix("")), ref)


WORDS = ["ein", "Hund", "rennt", "schnell", ".", "und", "die", "Katze", "schläft", "Nicht", "zwei,"]
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8)


@given(corpora)
@settings(max_examples=15, deadline=None)
def test_statistics_of_sentences_add_up_to_sacrebleus_corpus(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    total = tune.sentence_statistics(hypotheses, references).sum(axis=0)
    whole = BLEU().corpus_score(hypotheses, [references])
    assert total.tolist() == [whole.sys_len, whole.ref_len, *whole.counts, *whole.totals]
    assert tune.bleu_of(total) == whole.score


def test_intervals_tell_a_better_system_from_an_equal_one() -> None:
    rng = np.random.default_rng(1)
    words = [rng.choice(WORDS, size=8).tolist() for _ in range(200)]

    def noisy(share: float) -> list[str]:
        return [" ".join("x" if rng.random() < share else each for each in line) for line in words]

    lines = noisy(0)
    rows = [tune.sentence_statistics(noisy(share), lines) for share in (0.2, 0.2, 0.1, 0.3)]
    observed = [tune.bleu_of(each.sum(axis=0)) for each in rows]
    scores = tune.resampled([*rows, rows[0]], range(200), resamples=200, seed=7)
    assert (scores[:, 0] == scores[:, 4]).all()
    assert (scores[:, :1] == tune.resampled(rows[:1], range(200), resamples=200, seed=7)).all()
    assert (scores[:, :1] != tune.resampled(rows[:1], range(200), resamples=200, seed=8)).any()
    same, equal, better, worse = tune.differences(scores[:, :4], observed, 0)
    assert same == tune.Difference(0, 0, 0)
    assert equal.low < 0 < equal.high and better.low > 0 > worse.high
    # One interval for many systems is no narrower than one for a single system.
    alone = tune.differences(scores[:, [0, 2]], [observed[0], observed[2]], 0)[1]
    assert alone.low >= better.low
    assert alone.value == better.value
    # Sentences of one group are drawn together.
    one = tune.resampled([rows[0][:2]], ["one source", "one source"], resamples=5)
    assert set(one[:, 0]) == {tune.bleu_of(rows[0][:2].sum(axis=0))}


def tuning(*trials: tuple[Decoding, float, float]) -> tune.Tuning:
    records = [tune.Trial(how, bleu, tune.Difference(0, low, 1)) for how, bleu, low in trials]
    return tune.Tuning((tune.Trial(PAPER_DECODING, 30, tune.Difference(0, 0, 0)), *records), 9, 9)


def test_the_papers_setting_stays_or_the_least_better_departure_is_chosen() -> None:
    assert tune.grid([2], [1.0]) == [PAPER_DECODING, Decoding(2, 1.0)]
    settings = tune.grid(BEAMS, ALPHAS)
    assert len(settings) == len(set(settings)) == 1 + (len(BEAMS) - 1) * len(ALPHAS)
    assert PAPER_DECODING in settings
    by_luck = tuning((Decoding(5, 1.8), 33, 0.5), (Decoding(1, 0.0), 20, -3))
    assert by_luck.chosen == PAPER_DECODING and by_luck.best == Decoding(5, 1.8)
    far, near = (Decoding(4, 1.8), 33.0, 0.7), (Decoding(4, 1.0), 31.0, 0.6)
    wide = (Decoding(5, 0.6), 34.0, 0.9)
    assert tuning(far, near, wide).chosen == Decoding(4, 1.0)
    assert tuning(far, wide).chosen == Decoding(4, 1.8)


def test_trials_are_of_what_the_model_translates(tiny_translator: Translator) -> None:
    pairs = [("A dog runs.", "Ein Hund."), ("A dog runs.", "Der Hund."), ("Two cats.", "Katzen.")]
    found = tune.tune(tiny_translator, pairs, tune.grid([1], [0.0]), resamples=10)
    assert [trial.decoding for trial in found.trials] == [PAPER_DECODING, Decoding(1, 0.0)]
    assert (found.sentences, found.sources) == (3, 2)
    for trial in found.trials:
        done = tiny_translator.translate([src for src, _ in pairs], trial.decoding.beam_size)
        whole = BLEU().corpus_score([each.text for each in done], [[tgt for _, tgt in pairs]])
        assert trial.bleu == pytest.approx(whole.score)


@pytest.mark.parametrize("record", [
    None, 5, {}, {"beam_size": 4}, {"beam_size": 0, "alpha": 1}, {"beam_size": 2.5, "alpha": 1},
    {"beam_size": 4, "alpha": "high"}, {"beam_size": 4, "alpha": float("nan")},
    {"beam_size": 4, "alpha": 1.0, "early_stopping": "soon"},
    {"beam_size": True, "alpha": 1.0}, {"beam_size": 10**9, "alpha": 1.0},
])  # fmt: skip
def test_a_record_that_says_nothing_leaves_the_papers_decoding(record: object) -> None:
    assert default_decoding({"default_decoding": record}) == PAPER_DECODING
    assert default_decoding({}) == PAPER_DECODING == Decoding(4, 0.6)


def test_a_translator_decodes_by_the_record(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))
    path = folder / "metrics.json"
    path.write_text(json.dumps({"default_decoding": {"beam_size": 2, "alpha": 1.5}}))
    translator = Translator.load(folder, "cpu")
    for alpha, used in ((None, 1.5), (0.5, 0.5)):
        search = translator.trace("A dog runs.", alpha=alpha).search
        assert search is not None and (search.beam_size, search.alpha) == (2, used)
    assert translator.translate(["A dog."]) == translator.translate(["A dog."], 2, 1.5)
    path.unlink()
    assert Translator.load(folder, "cpu").decoding == PAPER_DECODING
