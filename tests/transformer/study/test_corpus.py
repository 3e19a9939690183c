from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.transformer.study.corpora import write_corpus
from transformer.study import corpus
from transformer.study.corpus import read, survey
from transformer.study.roles import aligned, annotated
from transformer.training.data import DataError


def row(number: str, form: str, head: str = "0", relation: str = "root", more: str = "_",
        tag: str = "NOUN") -> str:  # fmt: skip
    return "\t".join([number, form, "_", tag, "_", "_", head, relation, "_", more]) + "\n"


#: "Anna's dog, which she saw, hid it." with coreference, a range, an empty node and no last space.
WHOLE = (
    "# newdoc id = a\n# global.Entity = GRP\n# sent_id = 1\n"
    + row("1-2", "Anna's", "_", "_")
    + row("1", "Anna", "3", "nmod:poss", "Entity=(1-person", "PROPN")
    + row("2", "'s", "1", "case", "Entity=1)", "PART")
    + row("3", "dog", "8", "nsubj", "Entity=(2-animal-new)|SpaceAfter=No")
    + row("4", ",", "6", "punct", tag="PUNCT")
    + row("4.1", "ghost", "_", "_")
    + row("5", "she", "6", "nsubj", "Entity=(1-person)", "PRON")
    + row("6", "saw", "3", "acl:relcl", "SpaceAfter=No", "VERB")
    + row("7", ",", "6", "punct", tag="PUNCT")
    + row("8", "hid", "0", "root", tag="VERB")
    + row("9", "it", "8", "obj", "SpaceAfter=No|Entity=(2-animal)", "PRON")
    + row("10", ".", "8", "punct", tag="PUNCT")
)  # fmt: skip


def test_annotation_becomes_words_text_and_pairs(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu.gz"
    file.write_bytes(gzip.compress(WHOLE.encode()))
    (tmp_path / "._a.conllu").write_text("the shadow of a file that some systems leave")
    (found,) = read(tmp_path)
    assert found.text == "Anna's dog, she saw, hid it."
    assert found.words == ("Anna", "'s", "dog", ",", "she", "saw", ",", "hid", "it", ".")
    assert found.chunks == (0, 0, 1, 1, 2, 3, 3, 4, 5, 5)
    assert found.parents == (2, 0, 7, 5, 5, 2, 5, -1, 7, 7) and found.document == "a"
    assert found.antecedents == (-1, -1, -1, -1, 0, -1, -1, -1, 2, -1)
    pairs = set(annotated(found))
    assert {("up:nsubj", 2, 7), ("down:nsubj", 7, 2), ("antecedent", 8, 2)} <= pairs
    assert ("agreement", 7, 2) not in pairs, "no noun stands between"


def test_agreement_is_of_the_verb_that_shows_it(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(
        row("1", "keys", "6", "nsubj") + row("2", "of", "3", "case", tag="ADP")
        + row("3", "cars", "1", "nmod") + row("4", "have", "6", "aux", tag="AUX")
        + row("5", "been", "6", "cop", tag="AUX") + row("6", "lost", "0", "root", tag="ADJ")
    )  # fmt: skip
    (found,) = read(tmp_path / "a.conllu")
    assert [each for each in annotated(found) if each[0] == "agreement"] == [("agreement", 3, 0)]


def test_tokens_are_found_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Don't (Réally) go, Smith-Jones™.")
    (sentence,) = read(tmp_path / "a.txt")
    assert sentence.words[:4] == ("Do", "n't", "(", "Réally")
    tokens = ["[CLS]", "▁don", "'", "t", "▁(", "real", "ly)", "▁", "go", ",", "▁sm", "ith-jo",
              "nes", "<0xE2>", ".", "[SEP]"]  # fmt: skip
    found = aligned(sentence, tokens, {0, 15})
    named = dict(zip(sentence.words, found, strict=True))
    assert named["Do"] == (1,) and named["n't"] == (2, 3)
    assert (named["Réally"], named["("], named[")"]) == ((5, 6), (4,), ())
    assert (named["go"], named[","]) == ((7, 8), (9,))
    assert named["Smith"] == named["."] == (), "a byte leaves open what is where"
    assert aligned(sentence, tokens[:10], {0}) == [()] * len(sentence.words)


def test_a_survey_counts_what_is_read(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "rules.conllu")
    found, part = survey(path), survey(path, 30)
    assert (found.n_sentences, len(found.documents), found.name) == (120, 12, "rules")
    assert found.n_words == sum(len(each.words) for each in read(path))
    assert found.relations["nsubj"] == 120 and found.counts["."] == 120
    assert (part.n_sentences, len(list(part)), len(part.documents)) == (30, 30, 12)
    assert part.digest != found.digest and survey(path, 999).digest == found.digest
    zipped = tmp_path / "other.conllu.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert survey(zipped).digest == found.digest


def test_plain_text_is_read_by_lines(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_bytes("\ufeffA dog.\r\n\n  \nIt's  here\n".encode())
    first, second = read(file)
    assert (first.words, first.text) == (("A", "dog", "."), "A dog.")
    assert (second.words, second.chunks) == (("It", "'s", "here"), (0, 0, 1))
    assert second.document == "line 4" and not second.parents


ONE = row("1", "A", "2", "det") + row("2", "dog")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no sentences"), ("\n\n", "line 1: no sentences"),
        (ONE.replace("\t2\t", "\t3\t", 1), "line 1: word 1 has the head '3'"),
        (ONE.replace("\t2\t", "\t1\t", 1), "line 1: word 1 has the head '1'"),
        (ONE.replace("\t2\t", "\t-1\t", 1), "line 1: word 1 has the head '-1'"),
        (ONE.replace("\t2\t", f"\t{'9' * 5_000}\t", 1), "line 1: word 1 has the head '9999"),
        (ONE.replace("\t2\t", "\t0\t", 1), "line 2: words 1 and 2 are both roots"),
        (ONE.replace("\t0\t", "\t1\t", 1), "line 1: word 1 is its own ancestor"),
        ("\n" + ONE.replace("2\tdog", "3\tdog"), "line 3: word 3 follows word 1"),
        (ONE.replace("2\tdog", "x\tdog"), "line 2: 'x' is not the number"),
        (row("1-2", "A") + ONE.replace("\n", "\n" + row("2-3", "og"), 1), "line 3: word 2-3"),
        (row("1-3", "Adog", "_", "_") + ONE, "line 3: the sentence has 2 words"),
        (ONE.replace("root\t_\t_", "root\t_\tEntity=(1-x"), "line 2: the mention '1' does not end"),
        (ONE.replace("root\t_\t_", "root\t_\tEntity=1)"), "line 2: the mention '1' ends, but"),
        (ONE.replace("root\t_\t_", "root\t_\tEntity=(1-x))"), "line 2: brackets of mentions"),
        (ONE.replace("\t", " "), "line 1: 1 columns; expected 10"),
        (ONE + "# text = A dog\n", "line 3: a comment inside a sentence"),
        (ONE.replace("dog", "d\0g"), "line 2: not text"),
        (ONE.replace("dog", "dog" * 30_000), "line 2: a line of more than 65,536 bytes"),
        ("".join(row(str(n), "a", "1" if n > 1 else "0") for n in range(1, 2_300)),
         "line 2001: a sentence of more than 1,000 words"),
        (ONE.replace("dog", "Bär").encode("latin-1"), "line 2: not UTF-8 (byte 4)"),
        (ONE.encode("utf-16"), "line 1: not UTF-8"),
    ],
)  # fmt: skip
def test_a_bad_corpus_is_one_line_naming_file_and_line(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    file = tmp_path / "bad.conllu"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        survey(file)
    assert str(caught.value).startswith(f"{file}, {said}") and "\n" not in str(caught.value)


def test_other_bad_files_are_one_line(tmp_path: Path) -> None:
    whole = gzip.compress(ONE.encode() * 50)
    for name, content, said in (
        ("cut.conllu.gz", whole[:-12], r"line \d+: damaged"),
        ("no.conllu.gz", b"x", "line 1: damaged"),
        ("long.txt", b"a b " * 4_000, "line 1: 16,000 characters; at most 10,000"),
        ("upper.CONLLU", ONE.encode(), r"line 1: columns; files of CoNLL-U end in \.conllu"),
        ("words.txt", b"a " * 1_500, "line 1: a sentence of more than 1,000 words"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=said):
            survey(tmp_path / name)
    (tmp_path / "empty").mkdir()
    for path, said in ((tmp_path / "empty", "no file in it ends in"),
                       (tmp_path / "none", "no such file"),
                       (corpus.DEFAULT, "data gum --out data")):  # fmt: skip
        with pytest.raises(DataError, match=said):
            survey(path)
