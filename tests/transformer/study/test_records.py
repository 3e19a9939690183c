from __future__ import annotations

import json
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


def test_a_damaged_study_is_one_line_naming_the_file(tmp_path: Path) -> None:
    saved = study()
    for name, old, new in (
        ("study.json", '"schema":1', '"schema":99'),
        ("sentences.json", '"words"', '"wards"'),
    ):
        saved.save(tmp_path)
        (tmp_path / name).write_text((tmp_path / name).read_text().replace(old, new))
        with pytest.raises(CheckpointError, match="study"):
            Study.load(tmp_path)
    saved.save(tmp_path)
    about = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**about, "heads": about["heads"][:-1]}))
    with pytest.raises(CheckpointError, match=r"scores\.npz: score is \[2, 8\]"):
        Study.load(tmp_path)
