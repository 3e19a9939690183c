"""BLEU and chrF, and the lower-cased, tokenised protocol of the Multi30k literature."""

import gzip
from pathlib import Path

import pytest
import sacrebleu

from tests.tiny_models import SENTENCES
from transformer.errors import InputError
from transformer.evaluation.scores import evaluate_files, language_of, lc_tok, lc_tok_bleu, score
from transformer.training.data import DataError
from transformer.translator import Translator

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


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("de", "Ein Hund, der „Bello“ heißt.", 'ein hund , der " bello " heißt .'),
        ("de", "Der LKW-Fahrer hält um 12.30 Uhr an.", "der lkw-fahrer hält um 12.30 uhr an ."),
        ("de", "ÄPFEL & Birnen", "äpfel & birnen"),
        ("fr", "L’homme dit : « Oui ! »", 'l\' homme dit : " oui ! "'),
        # The final full stop and quotation mark change places.
        ("fr", 'Un café appelé "Chez Max."', 'un café appelé " chez max " .'),
        ("en", 'A cafe called "At Max\'s".', 'a cafe called " at max \'s . "'),
        ("en", "A man's hat…", "a man 's hat ..."),
        ("de", "", ""),
    ],
)
def test_lines_are_treated_as_the_perl_scripts_do(language: str, line: str, tokens: str) -> None:
    assert lc_tok(language)(line) == tokens


@pytest.mark.parametrize(
    ("hypotheses", "references", "options", "message"),
    [
        (["a"], ["a", "b"], {}, "1 translations and 2 references"),
        ([], [], {}, "no sentences"),
        (["a"], ["a"], {"lc_tok_language": "xx"}, "needs the target language.*'xx'"),
    ],
)
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
    assert {"bleu", "chrf", "signature", "sentences", "tokens_per_second", "lc_tok_bleu"} <= set(
        result.to_dict()
    )


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
