from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transformer.errors import CheckpointError
from transformer.study import records
from transformer.study.corpus import Sentence
from transformer.study.records import Looks, Role, Study
from transformer.trace.removals import Head

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
    order = [(one.named, one.score - one.bar) for one in found.findings(head)]
    assert len(order) == 2 and order == sorted(order, reverse=True)


def test_sentences_know_the_words_of_each_kind() -> None:
    kept = study().sentences[0]
    assert kept.queries("cross") == kept.keys("decoder_self") == kept.target
    assert kept.keys("cross") == kept.queries("encoder_self") == kept.words
    alone = replace(kept, target=())
    assert alone.queries("decoder_self") == alone.keys("decoder_self") == kept.words


#: A change of a file of JSON that ends in an error, and what it says.
DAMAGES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("study.json", lambda it: it.update(schema=99), "not a study of schema"),
    ("study.json", lambda it: it["heads"].pop(), r"heads are not|score is \[2, 8\]"),
    ("study.json", lambda it: it["heads"].__setitem__(0, ["nowhere", 0, 0]), "heads are not"),
    ("study.json", lambda it: it["heads"].__setitem__(0, ["cross", 10**30, 0]), "heads are not"),
    ("study.json", lambda it: it.update(n_words="many"), "n_words is no int"),
    ("study.json", lambda it: it.update(notes={"importance": 5}), "notes or roles"),
    ("study.json", lambda it: it.update(importance=[1]), "not a whole study"),
    ("sentences.json", lambda it: it["starts"].update(cross=[0, 10**30]), "starts of cross"),
    ("sentences.json", lambda it: it["starts"].clear(), "not a whole study"),
    ("sentences.json", lambda it: it["sentences"][0].update(wards=[]), "not a whole study"),
    ("sentences.json", lambda it: it["sentences"][0].update(text=5), "annotation of 5 does not"),
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
        ("scores.npz", "score", lambda array: array.astype(str), "score has the type"),
        ("looks.npz", "cross.weights", lambda array: array.astype(float), "has the type float64"),
        ("looks.npz", "cross.keys", lambda array: array + 200, "a word that its sentence lacks"),
    )
    for file, name, change, said in changes:
        study().save(tmp_path)
        with np.load(tmp_path / file) as arrays:
            changed: dict[str, Any] = {**arrays, name: change(arrays[name])}
        np.savez(tmp_path / file, **changed)
        with pytest.raises(CheckpointError, match=said):
            Study.load(tmp_path)
