"""Scores of shipped models, measured again on text in the folder `HEADLIGHT_DATA`, if set."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.shipped import FOLDER
from transformer.evaluation import measure
from transformer.evaluation.alignment import head_errors, read_gold
from transformer.evaluation.parsing import evaluate, load_parser
from transformer.evaluation.records import MEASURED, stamped
from transformer.evaluation.scores import measure_test
from transformer.search.request import default_decoding
from transformer.training.corpus import GUM
from transformer.training.data import corpus_folder, find_file, read_lines
from transformer.translator import Translator

DATA = Path(os.environ.get("HEADLIGHT_DATA", ""))
pytestmark = pytest.mark.skipif("HEADLIGHT_DATA" not in os.environ, reason="needs the corpora")


def same(record: dict[str, Any], again: dict[str, Any], items: Any) -> None:
    digest = stamped({}, "", "", "", items)[MEASURED]["sha256"]
    assert record[MEASURED]["sha256"] == digest and len(items) == record[MEASURED]["items"]
    for key, value in again.items():
        close = pytest.approx(value, rel=2e-3) if isinstance(value, float) else value
        assert record[key] == close, key


@pytest.mark.parametrize("name", ["multi30k-en-de", "everyday-en-fr"])
def test_the_scores_of_a_test_set(name: str) -> None:
    recipe, metrics = measure.read_metrics(FOLDER / name)
    held_out = measure.held_out_text(recipe, DATA)
    assert held_out is not None
    pairs, translator = held_out.tests["test_2017_mscoco"], Translator.load(FOLDER / name, "cpu")
    again = measure_test(translator, pairs, default_decoding(metrics), recipe.data.tgt)
    same(metrics["tests"]["test_2017_mscoco"], again, pairs)


@pytest.mark.parametrize("name", ["gpt-everyday", "bert-everyday"])
def test_predictions(name: str) -> None:
    recipe, metrics = measure.read_metrics(FOLDER / name)
    held_out = measure.held_out_text(recipe, DATA)
    found = measure.files_of(recipe).load(FOLDER / name)
    assert held_out is not None
    for text in ("val", "test_2017_mscoco"):
        pairs = {"val": held_out.val, **held_out.tests}[text][: measure.MOST_SENTENCES]
        again = measure.predictions(found.model, found.tokenizer, recipe, pairs)
        same(metrics["predictions"][text], again, [source for source, _ in pairs])


def test_trees() -> None:
    metrics = measure.read_metrics(FOLDER / "parsing-gum")[1]
    gold = corpus_folder(GUM, DATA) / measure.DEV
    again = evaluate(load_parser(FOLDER / "parsing-gum", "cpu"), gold, 4, 0.3)
    same(metrics["parsing_baselines"]["this model"], again, read_lines(find_file(gold)))


def test_alignment_errors() -> None:
    recipe, metrics = measure.read_metrics(FOLDER / "multi30k-en-de")
    aligned = read_gold(DATA, recipe.data.src)
    again = head_errors(Translator.load(FOLDER / "multi30k-en-de", "cpu"), aligned)
    same(metrics["alignment"], again, aligned.pairs)
