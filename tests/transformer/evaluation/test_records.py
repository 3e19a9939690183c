"""Every figure of the shipped models stands in a record of what it was measured on."""

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.shipped import FOLDER
from transformer.catalogue import inspect_entry
from transformer.evaluation.card import card, meanings
from transformer.evaluation.measure import held_out_text, load_any, predictions, read_metrics
from transformer.evaluation.records import (
    BASELINES,
    MEASURED,
    OWN,
    PREDICTIONS,
    TESTS,
    TYPED,
    records,
    stamped,
    stamps,
)
from transformer.evaluation.scores import measure_test
from transformer.evaluation.summary import summary_table
from transformer.evaluation.typed import accepts, from_dict, typed_sentences, typed_text
from transformer.search.decoding import default_decoding
from transformer.translator import Translator
from ui.models.rows import figures_of

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/metrics.json"))
TYPED_BY = [name for name in NAMES if TYPED in read_metrics(FOLDER / name)[1]]
PREDICT = [name for name in NAMES if PREDICTIONS in read_metrics(FOLDER / name)[1]]
DOCUMENT = (FOLDER.parent / "docs" / "models.md").read_text("utf-8")

#: Parts of metrics.json that are settings or logs of training, not figures of the weights.
LOGS = (
    "training", "earlier_parts", "chosen_on_val", "tried_on_val", "default_decoding", "decoding",
)  # fmt: skip

#: The figures by which each kind of record is known.
FIGURES = {TESTS: ("bleu", "exact_match"), TYPED: ("right",), PREDICTIONS: ("right",)}


def sha256(data: bytes) -> str:
    """As `sha256sum` prints it, twelve digits."""
    return hashlib.sha256(data).hexdigest()[:12]


def unstamped(values: Mapping[str, Any], *path: str) -> Iterator[str]:
    """Yield the keys to each decimal number outside of records."""
    for key, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Mapping) and MEASURED not in each and key not in LOGS:
                yield from unstamped(each, *path, key)
            elif isinstance(each, float):
                yield ".".join((*path, key))


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_is_of_the_weights_beside_it(name: str) -> None:
    folder = FOLDER / name
    _, metrics = read_metrics(folder)
    assert not list(unstamped(metrics))
    weights, others = sha256((folder / "model.safetensors").read_bytes()), 0
    for path, stamp in stamps(metrics):
        assert stamp.keys() == {"model", "setting", "text", "items", "sha256", "date"}, path
        if path[0] == BASELINES and not path[1].startswith(OWN):
            others += 1
        else:
            assert stamp["model"] == weights, path
        assert date(2026, 11, 20) <= date.fromisoformat(stamp["date"]) <= date.today(), path
        assert re.fullmatch("[0-9a-f]{12}", stamp["sha256"]) and stamp["items"] > 0, path
        assert stamp["setting"] and stamp["text"], path
    # A note says in words what no record of these weights holds.
    assert not re.search(r"\d\.\d|\bof \d", " ".join(metrics.get("notes", ())))
    found = records(metrics)
    assert found and others < len(list(stamps(metrics)))
    default = str(default_decoding(metrics))
    for record in found:
        if record.kind in (TYPED, TESTS) and record.figures in metrics[TESTS].values():
            assert record.setting == default
    assert name in PREDICT or found[0].setting == default


@pytest.mark.parametrize("name", NAMES)
def test_documents_cards_and_pages_draw_each_figure_from_its_record(name: str) -> None:
    """A changed figure or setting changes the card, the table and, where it fits, the page."""
    folder = FOLDER / name
    recipe, metrics = read_metrics(folder)
    entry = inspect_entry(folder)
    config = entry.stack or entry.config
    assert config is not None
    letters = name == "reverse-toy"

    def drawn(metrics: Mapping[str, Any]) -> tuple[str, str, list[str]]:
        table = summary_table([replace(entry, metrics=metrics)])
        return card(name, config, recipe, metrics), table, figures_of(metrics, letters=letters)

    shown = drawn(metrics)
    assert shown[0] == (folder / "README.md").read_text("utf-8")
    rows = shown[1].split("\n")[2:]
    assert "\n".join(rows) in DOCUMENT
    count = len(records(metrics))
    for at in range(count):
        for key in (*FIGURES.get(records(metrics)[at].kind, ("f1",)), "setting"):
            other = copy.deepcopy(metrics)
            record = records(other)[at]
            figures: Any = record.figures
            if key == "setting":
                figures[MEASURED]["setting"] = "beam 77"
            elif (key == "bleu") == letters or key not in figures:
                continue
            elif record.kind == TYPED:
                figures["right"] += 1
                figures["verdicts"].append(figures["verdicts"][0] | {"right": True})
            else:
                figures[key] += 0.1 if key in ("right", "exact_match") else 1.0
            again = drawn(other)
            assert again[0] != shown[0] and again[1] != shown[1], (record.kind, record.name, key)
            page = at == 0 and record.kind != TYPED
            assert not page or again[2] != shown[2], (record.kind, record.name, key)


def test_the_readme_has_no_figure_of_a_model() -> None:
    """One that it gets has to be drawn from its record here."""
    text = (FOLDER.parent / "README.md").read_text("utf-8")
    measures = r"(sacre|lc_tok_)?BLEU|F1|chrF2?|perplexity|typed sentences|%"
    assert not re.search(rf"\d\s*({measures})|({measures}) (of )?\d", text)


def test_a_text_is_known_by_a_checksum_that_a_shell_prints() -> None:
    record = stamped({"a": 1}, "m", "greedy", "it", [("one", "eins"), ("two", "zwei")])
    assert record[MEASURED]["sha256"] == sha256(b"one\teins\ntwo\tzwei\n")
    assert stamped({}, "m", "greedy", "it", ["one"])[MEASURED]["sha256"] == sha256(b"one\n")
    assert record["a"] == 1 and record[MEASURED]["items"] == 2


@pytest.mark.parametrize("name", TYPED_BY)
def test_typed_sentences_are_translated_and_judged_again(name: str) -> None:
    recipe, metrics = read_metrics(FOLDER / name)
    sentences = typed_sentences(recipe.data.src, recipe.data.tgt)
    record, verdicts = metrics[TYPED], from_dict(metrics[TYPED])
    now = stamped({}, "", "", *typed_text(sentences))[MEASURED]
    assert all(record[MEASURED][key] == now[key] for key in ("text", "items", "sha256"))
    for sentence, verdict in zip(sentences, verdicts, strict=True):
        assert verdict.source == sentence.source
        assert verdict.right == accepts(sentence.accepted, verdict.translation), sentence.source
    assert record["right"] == sum(each.right for each in verdicts)
    translator, how = Translator.load(FOLDER / name, device="cpu"), default_decoding(metrics)
    few = verdicts[3::17]
    again = translator.translate([each.source for each in few], how.beam_size, how.alpha)
    assert [each.text for each in again] == [each.translation for each in few]


@pytest.mark.parametrize("name", PREDICT)
def test_predictions_are_measured_again(name: str) -> None:
    """On the text that comes with the project."""
    recipe, metrics = read_metrics(FOLDER / name)
    record = metrics[PREDICTIONS]["typed_sentences"]
    found = load_any(FOLDER / name, recipe)
    sources = [each.source for each in typed_sentences("en", "de")]
    assert record[MEASURED]["sha256"] == sha256("".join(f"{s}\n" for s in sources).encode())
    again = predictions(found.model, found.tokenizer, recipe, [(s, s) for s in sources])
    assert again["tokens"] == record["tokens"]
    assert again["perplexity"] == pytest.approx(record["perplexity"], rel=1e-3)
    assert again["right"] == pytest.approx(record["right"], abs=2e-3)


def test_the_scores_of_a_test_set_are_measured_again() -> None:
    """Of the test set that is made, not read."""
    recipe, metrics = read_metrics(FOLDER / "reverse-toy")
    held_out = held_out_text(recipe, Path())
    assert held_out is not None
    ((name, pairs),) = held_out.tests.items()
    record = metrics[TESTS][name]
    lines = "".join(f"{src}\t{tgt}\n" for src, tgt in pairs)
    assert record[MEASURED]["sha256"] == sha256(lines.encode())
    translator = Translator.load(FOLDER / "reverse-toy", device="cpu")
    again = measure_test(translator, pairs, default_decoding(metrics), None)
    assert json.loads(json.dumps(again)) == {k: v for k, v in record.items() if k != MEASURED}


@pytest.mark.parametrize("name", NAMES)
def test_one_sentence_says_what_each_kind_of_figure_means(name: str) -> None:
    metrics = read_metrics(FOLDER / name)[1]
    said, text = meanings(metrics), (FOLDER / name / "README.md").read_text("utf-8")
    assert len(said) == len({each.kind for each in records(metrics)})
    for sentence in said:
        assert re.fullmatch(r"[A-Z][^.!?]+\.", sentence) and text.count(sentence) == 1
    assert ("reversed" in said[0]) == (name == "reverse-toy")
    assert ("not with people" in said[0]) == (name == "parsing-gum")
