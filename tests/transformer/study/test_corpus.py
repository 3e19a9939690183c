import gzip
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiny_models import SENTENCES
from tests.transformer.conftest import Command
from tests.transformer.study.corpora import write_corpus
from transformer.measures.significance import holm, student_sf
from transformer.study import corpus, records
from transformer.study.corpus import Sentence, read, survey
from transformer.study.page import markdown
from transformer.study.records import Looks, Role, Study
from transformer.study.roles import aligned, annotated
from transformer.study.statistics import bootstrap, paired_p
from transformer.text.marks import decoded
from transformer.trace.removals import Head
from transformer.training.data import DataError
from transformer.types import CheckpointError


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
    named = dict(zip(sentence.words, aligned(sentence, tokens, {0, 15}), strict=True))
    assert named["Do"] == (1,) and named["n't"] == (2, 3)
    assert (named["Réally"], named["("], named[")"]) == ((5, 6), (4,), ())
    assert (named["go"], named[","]) == ((7, 8), (9,))
    assert named["Smith"] == named["."] == (), "a byte leaves open what is where"
    assert aligned(sentence, tokens[:10], {0}) == [()] * len(sentence.words)
    (tmp_path / "a.txt").write_text("(or 漢字) no")
    (sentence,) = read(tmp_path / "a.txt")
    tokens = ["▁", "<0x28>", "or", "▁", *[f"<0x{byte:02X}>" for byte in "漢字)".encode()], "▁no"]
    assert decoded(tokens) == ["▁", "(", "or", "▁", "漢", "", "", "字", "", "", ")", "▁no"]
    assert aligned(sentence, tokens, ()) == [(0, 1), (2,), (*range(3, 10),), (10,), (11,)]
    assert decoded(["<0xE2>", "a", "<0x82>"]) == ["\ufffd", "a", "\ufffd"]


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


@pytest.mark.parametrize(("text", "said"), [
    ("", "line 1: no sentences"), ("\n\n", "line 1: no sentences"),
    (ONE.replace("\t2\t", "\t3\t", 1), "line 1: word 1 has head '3'"),
    (ONE.replace("\t2\t", "\t1\t", 1), "line 1: word 1 has head '1'"),
    (ONE.replace("\t2\t", "\t-1\t", 1), "line 1: word 1 has head '-1'"),
    (ONE.replace("\t2\t", f"\t{'9' * 5_000}\t", 1), "line 1: word 1 has head '9999"),
    (ONE.replace("\t2\t", "\t0\t", 1), "line 2: words 1 and 2 are both roots"),
    (ONE.replace("\t0\t", "\t1\t", 1), "line 1: word 1 is its own ancestor"),
    ("\n" + ONE.replace("2\tdog", "3\tdog"), "line 3: word 3 follows word 1"),
    (ONE.replace("2\tdog", "x\tdog"), "line 2: 'x' is not a word number"),
    (row("1-2", "A") + ONE.replace("\n", "\n" + row("2-3", "og"), 1), "line 3: word 2-3"),
    (row("1-3", "Adog", "_", "_") + ONE, "line 3: 2 words; expected 3"),
    (ONE.replace("root\t_\t_", "root\t_\tEntity=(1-x"), "line 2: mention '1' does not end"),
    (ONE.replace("root\t_\t_", "root\t_\tEntity=1)"), "line 2: mention '1' ends before"),
    (ONE.replace("root\t_\t_", "root\t_\tEntity=(1-x))"), "line 2: unbalanced mention brackets"),
    (ONE.replace("\t", " "), "line 1: 1 columns; expected 10"),
    (ONE + "# text = A dog\n", "line 3: a comment inside a sentence"),
    (ONE.replace("dog", "d\0g"), "line 2: contains a NUL byte"),
    (ONE.replace("dog", "dog" * 30_000), "line 2: a line of more than 65,536 bytes"),
    ("".join(row(str(n), "a", "1" if n > 1 else "0") for n in range(1, 2_300)),
     "line 2001: a sentence of more than 1,000 words"),
    (ONE.replace("dog", "Bär").encode("latin-1"), "line 2: not UTF-8 (byte 4)"),
    (ONE.encode("utf-16"), "line 1: not UTF-8"),
])  # fmt: skip
def test_an_error_names_file_and_line(tmp_path: Path, text: str | bytes, said: str) -> None:
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
        ("upper.CONLLU", ONE.encode(), r"line 1: columns; name CoNLL-U files \*\.conllu"),
        ("words.txt", b"a " * 1_500, "line 1: a sentence of more than 1,000 words"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=said):
            survey(tmp_path / name)
    (tmp_path / "empty").mkdir()
    for path, said in ((tmp_path / "empty", "no files; expected names ending in"),
                       (tmp_path / "none", "no such file"),
                       (corpus.DEFAULT, "data gum --out data")):  # fmt: skip
        with pytest.raises(DataError, match=said):
            survey(path)


ROLES = (Role("previous", "previous token"), Role("up:det", "determiner to noun", "dependencies"))
HEADS = (
    *(Head("encoder_self", layer, head) for layer in range(2) for head in range(3)),
    Head("cross", 0, 0),
    Head("cross", 0, 1),
)


def study() -> Study:
    rng = np.random.default_rng(0)
    shape = len(ROLES), len(HEADS)
    scores: dict[str, Any] = {name: rng.random(shape, np.float32) for name in records._SCORES}
    scores["pairs"] = rng.integers(1, 9, shape)
    scores["pairs"][1, 6:] = 0
    scores["offset"] = rng.integers(-3, 3, shape)
    scores["named"] = rng.random(shape) < 0.5
    scores["choice"] = scores["score"] - scores["bar"]
    kept = (
        Sentence("d1", ("A", "dog", "runs"), ("DT", "NN", "VBZ"), (1, 2, -1),
                 ("det", "nsubj", "root"), (-1, -1, -1), ("Ein", "Hund", "läuft."), "A dog runs"),
        Sentence("d2", ("Go", "!"), target=("Los", "!", "ja"), text="Go!"),
    )  # fmt: skip

    def looks(kind: str, widths: list[int]) -> Looks:
        shape = (2, 3, sum(widths)) if kind == "encoder_self" else (1, 2, sum(widths))
        arrays = [rng.integers(0, 2, shape, np.uint8) for _ in range(3)]
        starts = np.cumsum([0, *widths])
        return Looks(starts, arrays[0], arrays[1], None if kind == "cross" else arrays[2])

    return Study(
        "alpha@20", "ab12", "off cross.1.1", "gum", "cd34", "GUM, CC-BY 4.0", 2, 5, 2, 1,
        "its first random weights", ROLES, HEADS, scores, kept,
        {"encoder_self": looks("encoder_self", [3, 2]), "cross": looks("cross", [3, 3])},
        {"removal": {"cross": rng.random((1, 2), np.float32)}}, {"sentences": 200},
    )  # fmt: skip


def test_a_saved_study_opens_as_it_was(tmp_path: Path) -> None:
    saved = study()
    saved.save(tmp_path / "new" / "gum")
    found = Study.load(tmp_path / "new" / "gum")
    assert (found.sentences, found.roles, found.heads) == (saved.sentences, ROLES, HEADS)
    assert (found.checkpoint, found.notes) == ("alpha@20", {"sentences": 200})
    for kind, each in saved.looks.items():
        for name in ("starts", "keys", "weights", "own"):
            np.testing.assert_array_equal(getattr(found.looks[kind], name), getattr(each, name))
    keys, weights = found.looks["cross"].of(Head("cross", 0, 1), 1)
    np.testing.assert_array_equal(keys, saved.looks["cross"].keys[0, 1, 3:])
    np.testing.assert_allclose(weights, saved.looks["cross"].weights[0, 1, 3:] / 255)
    np.testing.assert_array_equal(
        found.importance["removal"]["cross"], saved.importance["removal"]["cross"]
    )


def test_findings_have_the_numbers_of_their_role_and_head() -> None:
    found = study()
    head = Head("encoder_self", 1, 2)
    each = found.finding(ROLES[1], head)
    assert each and each.score == found.scores["score"][1, 5].item()
    assert found.grid(ROLES[1], "encoder_self")[1, 2] == found.scores["score"][1, 5]
    assert found.grid(ROLES[0], "cross").shape == (1, 2)
    assert found.finding(ROLES[1], Head("cross", 0, 1)) is None, "has no pairs"
    order = [(one.named, one.choice) for one in found.findings(head)]
    assert len(order) == 2 and order == sorted(order, reverse=True)


def test_sentences_know_the_words_of_each_kind() -> None:
    kept = study().sentences[0]
    assert kept.queries("cross") == kept.keys("decoder_self") == kept.target
    assert kept.keys("cross") == kept.queries("encoder_self") == kept.words
    alone = replace(kept, target=())
    assert alone.queries("decoder_self") == alone.keys("decoder_self") == kept.words


#: A change of a file of JSON that ends in an error, and what it says.
DAMAGES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("study.json", lambda it: it.update(schema=99), "not a study; expected schema"),
    ("study.json", lambda it: it["heads"].pop(), r"heads do not form|score is \[2, 8\]"),
    ("study.json", lambda it: it["heads"].__setitem__(0, ["nowhere", 0, 0]), "heads do not form"),
    (
        "study.json",
        lambda it: it["heads"].__setitem__(0, ["cross", 10**30, 0]),
        "heads do not form",
    ),
    ("study.json", lambda it: it.update(n_words="many"), "n_words is invalid; expected int"),
    ("study.json", lambda it: it.update(notes={"importance": 5}), "notes or roles"),
    ("study.json", lambda it: it.update(importance=[1]), "invalid study"),
    (
        "sentences.json",
        lambda it: it["starts"].update(cross=[0, 10**30]),
        "cross starts do not match",
    ),
    ("sentences.json", lambda it: it["starts"].clear(), "invalid study"),
    ("sentences.json", lambda it: it["sentences"][0].update(wards=[]), "invalid study"),
    (
        "sentences.json",
        lambda it: it["sentences"][0].update(text=5),
        "annotations do not match the words of 5",
    ),
    ("sentences.json", lambda it: it["sentences"][0].update(parents=[7, 0, -1]), "annotation"),
    ("sentences.json", lambda it: it["sentences"][0].update(tags=["DT"]), "annotation"),
]


@pytest.mark.parametrize(("name", "damage", "said"), DAMAGES)
def test_a_damaged_study_is_one_line_naming_the_file(
    tmp_path: Path, name: str, damage: Callable[[dict[str, Any]], object], said: str
) -> None:
    study().save(tmp_path)
    values = json.loads((tmp_path / name).read_text())
    damage(values)
    (tmp_path / name).write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=said) as caught:
        Study.load(tmp_path)
    assert str(caught.value).startswith(str(tmp_path)) and "\n" not in str(caught.value)


def test_arrays_of_another_kind_are_refused(tmp_path: Path) -> None:
    changes: tuple[tuple[str, str, Callable[[Any], Any], str], ...] = (
        ("scores.npz", "score", lambda array: array.astype(str), "score has type"),
        ("looks.npz", "cross.weights", lambda array: array.astype(float), "has type float64"),
        ("looks.npz", "cross.keys", lambda array: array + 200, "cross.keys is out of range"),
    )
    for file, name, change, said in changes:
        study().save(tmp_path)
        with np.load(tmp_path / file) as arrays:
            changed: dict[str, Any] = {**arrays, name: change(arrays[name])}
        np.savez(tmp_path / file, **changed)
        with pytest.raises(CheckpointError, match=said):
            Study.load(tmp_path)


def test_a_study_is_printed(command: Command, tmp_path: Path, tiny_checkpoint: Path) -> None:
    corpus = write_corpus(tmp_path / "rules.conllu")
    asked = ["study", tiny_checkpoint, "--corpus", corpus, "--sentences", 40, "--quiet",
             "--out", tmp_path / "out", "--edit", "off encoder.1.1", "--examples"]  # fmt: skip
    ran = command(*asked, 5)
    folder, *lines = ran.out.splitlines()
    assert (ran.status, folder) == (0, str(tmp_path / "out"))
    said = "\n".join(lines)
    assert "## tiny, edited: off encoder.1.1\n" in said and "determiner to noun" in said
    assert "40 sentences of rules, 12 documents; control: random weights" in said
    made = Study.load(folder)
    assert 0 <= 5 - len(made.sentences) <= made.n_cut
    assert command(*asked, 5).out.startswith(f"{folder}: finished before")
    assert command(*asked, 0).out.startswith(f"{folder}\n\n## tiny")
    assert not Study.load(folder).sentences and Study.load(folder).importance


def test_plain_text_gives_roles_of_text(
    command: Command, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    (tmp_path / "mine.txt").write_text("\n".join([*SENTENCES, "dog " * 600]))
    ran = command("study", tiny_checkpoint, "--corpus", tmp_path / "mine.txt", "--out",
                  tmp_path / "out")  # fmt: skip
    found = Study.load(tmp_path / "out")
    assert ran.status == 0 and {role.needs for role in found.roles} == {"text"}
    assert (found.n_sentences, found.n_documents, found.n_skipped) == (11, 11, 1)
    assert {role.name for role in found.roles} >= {"previous", "end", "diagonal", "rarest"}


def test_a_page_says_what_studies_found(tmp_path: Path) -> None:
    made = study()
    page = markdown([made])
    assert page.count("\n## ") == 1 and "\n## alpha@20, edited: off cross.1.1\n" in page
    assert page.count("| previous token |") == max(1, int(made.scores["named"][0].sum()))
    each = next(found for head in made.heads for found in made.findings(head) if found.named)
    assert f"| {each.role.title} | {100 * each.score:.0f}% |" in page


def test_errors_take_one_line(command: Command, tmp_path: Path, tiny_checkpoint: Path) -> None:
    assert "no studies of these" in command("study", tiny_checkpoint, "--page",
                                            tmp_path / "heads.md").refused  # fmt: skip
    two = command("study", tiny_checkpoint, tiny_checkpoint, "--out", tmp_path)
    assert "--out is the folder of one study" in two.refused
    assert "--sentences 0" in command("study", tiny_checkpoint, "--sentences", 0).refused
    (tmp_path / "empty.txt").touch()
    said = command("study", tiny_checkpoint, "--corpus", tmp_path / "empty.txt").refused
    assert f"{tmp_path / 'empty.txt'}, line 1: no sentences" in said


def test_intervals_agree_with_a_plain_bootstrap() -> None:
    rng = random.Random(1)
    pairs = [rng.randint(0, 30) for _ in range(25)]
    hits = [rng.randint(0, n) for n in pairs]
    drawn = []
    for _ in range(4_000):
        chosen = [rng.randrange(25) for _ in range(25)]
        drawn.append(sum(hits[at] for at in chosen) / sum(pairs[at] for at in chosen))
    drawn.sort()
    numbers = np.array(hits, float)[:, None], np.array(pairs, float)[:, None]
    low, high = bootstrap(*numbers)
    assert low[0] == pytest.approx(drawn[100], abs=0.02)
    assert high[0] == pytest.approx(drawn[3_900], abs=0.02)
    assert low[0] < sum(hits) / sum(pairs) < high[0]
    assert [each.tolist() for each in bootstrap(*numbers)] == [low.tolist(), high.tolist()]
    # Draws without pairs say nothing.
    some = np.array([[4.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 2.0]])
    low, high = bootstrap(np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]), some)
    assert (low[0], high[0]) == (0.75, 0.75) and np.isnan([low[1], high[1]]).all()
    assert (low[2], high[2]) == (0, 1)


@pytest.mark.parametrize("freedom", [1, 2, 3, 11, 95, 499])
@pytest.mark.parametrize("t", [-2.5, 0.0, 0.3, 1.9, 4.5, 9.0])
def test_students_t_is_the_area_under_its_density(t: float, freedom: int) -> None:
    start = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = math.exp(start) / math.sqrt(freedom * math.pi)
    # After x = |t| + u / (1 - u), in small steps.
    steps, area = 40_000, 0.0
    for k in range(steps):
        u = (k + 0.5) / steps
        x = abs(t) + u / (1 - u)
        area += scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) / (1 - u) ** 2 / steps
    expected = 1 - area if t < 0 else area
    assert student_sf(np.array([t]), np.array([freedom]))[0] == pytest.approx(expected, rel=1e-3)


def test_the_paired_test_is_that_of_the_mean_difference() -> None:
    no = math.nan
    differences = np.array(
        [[2.0, 1.0, no, 0.0], [1.0, no, no, 0.0], [4.0, no, no, 0.0], [-1.0, no, 5.0, 0.0]]
    )
    mean, spread = 1.5, math.sqrt((0.25 + 0.25 + 6.25 + 6.25) / 3)
    t = mean / (spread / 2)
    found = paired_p(differences)
    assert found[0] == pytest.approx(student_sf(np.array([t]), np.array([3]))[0])
    assert found[1] == found[2] == 1 and found[3] == pytest.approx(0.5)
    assert paired_p(np.array([[1.0], [1.0]]))[0] == 0 and paired_p(np.array([[-1.0]] * 2))[0] == 1


def test_holm_steps_down() -> None:
    rng = random.Random(2)
    p = [rng.random() ** 4 for _ in range(40)]
    order, expected, largest = sorted(range(40), key=p.__getitem__), [0.0] * 40, 0.0
    for step, at in enumerate(order):
        largest = max(largest, min(1, (40 - step) * p[at]))
        expected[at] = largest
    table = np.full((8, 6), np.nan)
    table.flat[:40] = p
    found = holm(table)
    assert found.flat[:40] == pytest.approx(expected) and np.isnan(found.flat[40:]).all()
