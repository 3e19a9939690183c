import copy
import hashlib
import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shipped import FOLDER
from tests.snapshots import write_snapshots
from tests.transformer.conftest import Command
from transformer.evaluation.card import card, meanings
from transformer.evaluation.measure import files_of, held_out_text, predictions, read_metrics
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
    summary_table,
)
from transformer.evaluation.scores import measure_test
from transformer.models.catalogue import inspect_entry
from transformer.search.request import default_decoding
from transformer.training import typed
from transformer.training.data import DataError
from transformer.training.typed import accepts, from_dict, typed_sentences, typed_text
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
    return hashlib.sha256(data).hexdigest()[:12]


def unstamped(values: Mapping[str, Any], *path: str) -> Iterator[str]:
    """Yield the keys of each decimal number outside of records."""
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
    assert "\n".join(shown[1].split("\n")[2:]) in DOCUMENT
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
    recipe, metrics = read_metrics(FOLDER / name)
    record = metrics[PREDICTIONS]["typed_sentences"]
    found = files_of(recipe).load(FOLDER / name)
    sources = [each.source for each in typed_sentences("en", "de")]
    assert record[MEASURED]["sha256"] == sha256("".join(f"{s}\n" for s in sources).encode())
    again = predictions(found.model, found.tokenizer, recipe, [(s, s) for s in sources])
    assert again["tokens"] == record["tokens"]
    assert again["perplexity"] == pytest.approx(record["perplexity"], rel=1e-3)
    assert again["right"] == pytest.approx(record["right"], abs=2e-3)


def test_the_scores_of_a_test_set_are_measured_again() -> None:
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


PAIRS = [(src, tgt) for src in ("en", "de", "fr") for tgt in ("en", "de", "fr") if src != tgt]

#: Words, bracketed alternatives, and both in a row.
WORDS = st.text("abc", min_size=1, max_size=4)
PARTS = st.lists(st.lists(WORDS | st.just(""), min_size=1, max_size=3), min_size=1, max_size=4)


@given(PARTS)
def test_a_pattern_accepts_each_choice_of_its_alternatives(parts: list[list[str]]) -> None:
    pattern = " ".join(f"[{'|'.join(part)}]" for part in parts)
    every = [""]
    for part in parts:
        every = [f"{head} {tail}" for head in every for tail in part]
    assert typed.variants(pattern) == tuple(dict.fromkeys(" ".join(text.split()) for text in every))
    # Outer brackets change nothing; a second sentence adds its own.
    assert typed.variants(f"[{pattern}]") == typed.variants(pattern)
    assert set(typed.variants(f"{pattern} | end")) == {*typed.variants(pattern), "end"}
    assert typed.variants("[a|b [c|d|]] e") == ("a e", "b c e", "b d e", "b e")
    assert typed.variants("Das [schon|].") == ("Das schon.", "Das.")


@given(st.text("ab[|]", max_size=12))
def test_a_bracket_without_its_partner_is_an_error(pattern: str) -> None:
    depth, fits = 0, True
    for sign in pattern:
        depth += {"[": 1, "]": -1}.get(sign, 0)
        fits = fits and depth >= 0
    if fits and not depth:
        assert typed.variants(pattern)
    else:
        with pytest.raises(DataError, match=r"bracket|never closed"):
            typed.variants(pattern)


@given(st.text(max_size=30))
def test_a_normal_form_stays_as_it_is(text: str) -> None:
    assert typed.normal_form(typed.normal_form(text)) == typed.normal_form(text)
    assert typed.accepts([text], text)
    assert typed.accepts([text], f"  {text}\u00a0")


@pytest.mark.parametrize(("translation", "right"), [
    ("L'animal est fatigué.", True),
    ("l’animal  est fatigué", True),
    ("L'animal est fatigué !", True),
    ("L'animal est fatigue\u0301.", True),
    ("L'animal est fatigué ?", False),
    ("L'Animal est fatigué.", False),
    ("Le animal est fatigué.", False),
    ("L'animal, est fatigué.", False),
    ("", False),
])  # fmt: skip
def test_what_counts_as_the_same(translation: str, right: bool) -> None:
    assert typed.accepts(["L'animal est fatigué."], translation) == right


@pytest.mark.parametrize(("src", "tgt"), PAIRS)
def test_the_list_has_ten_sentences_on_each_topic(src: str, tgt: str) -> None:
    sentences = typed.typed_sentences(src, tgt)
    assert set(Counter(each.topic for each in sentences).values()) == {10}
    assert len({each.source for each in sentences}) == len(sentences) == 200
    for each in sentences:
        for text in (each.source, *each.accepted):
            assert text[0].isalnum() and text[-1] in ".!?", text
            assert not set(text) & set("[]|\t"), text
        # A question is a question in every variant.
        assert len({text[-1] == "?" for text in (each.source, *each.accepted)}) == 1, each.source
        assert len(each.accepted) < 200, each.source
        assert src != "en" or 3 <= len(each.source.split()) <= 12
    back = typed.typed_sentences(tgt, src)
    assert [each.accepted[0] for each in back] == [each.source for each in sentences]


#: Forms that are right in the same place, see forms.toml.
FORMS = tomllib.loads(Path(__file__).with_name("forms.toml").read_text("utf-8"))

PRONOUNS = (
    "me te se nous vous le la les lui leur il elle ils elles je tu on ich du er sie es wir man "
    "mich mir dir dich sich uns euch ihm ihn ihr ihnen i he she it we they"
)

#: Forms of address, which one sentence does not mix.
ADDRESS = {
    "de": (r"\b[Dd](u|ich|ir|ein(e[nmrs]?)?)\b", r"\b([Ee]uch|[Ee]ure?[nmrs]?)\b",
           r"(?<=\w )(Sie|Ihnen|Ihr(e[nmrs]?)?)\b"),
    "fr": (r"(?i)\b(tu|te|toi|ton|ta|tes|t')\b", r"(?i)\b(vous|votre|vos|(?!chez|assez)\w+ez)\b"),
}  # fmt: skip


def faults(sentences: Sequence[typed.TypedSentence], starts: Sequence[str], code: str) -> list[str]:
    """Describe accepted variants that cannot both be right, such as chers and chères."""
    found = []
    for sentence, start in zip(sentences, starts, strict=True):
        free = FORMS["free"][code] + "".join(
            f", {more}" for first, more in FORMS["there"].items() if start.startswith(first)
        )
        groups = [set(group.split()) for group in free.split(", ")]
        words: dict[tuple[str, ...], set[str]] = {}
        for text in sentence.accepted:
            if sum(bool(re.search(each, text)) for each in ADDRESS.get(code, ())) > 1:
                found.append(text)
            parts = re.findall(r"\w+(?:-\w+)*'?|[^\w\s]", text)
            for at, word in enumerate(parts):
                rest = (*parts[:at], "", *parts[at + 1 :])
                words.setdefault(rest, set()).add(word.lower())
        for rest, forms in words.items():
            for pair in map(set, combinations(sorted(forms), 2)):
                plain = (re.sub("[\u0300-\u036f]", "", normalize("NFD", each)) for each in pair)
                short, long = sorted(plain, key=len)
                same = next((n for n, letter in enumerate(short) if letter != long[n]), len(short))
                ending = same > 0 and len(long) - same <= 3
                alike = ending or pair <= set(PRONOUNS.split())
                if alike and not any(pair <= each for each in groups):
                    found.append(f"{'/'.join(sorted(pair))}: {' '.join(rest)}")
    return found


@pytest.mark.parametrize(("code", "other"), [("en", "de"), ("de", "en"), ("fr", "en")])
def test_no_pattern_accepts_forms_that_do_not_agree(code: str, other: str) -> None:
    """A product of alternatives accepts wrong sentences if the alternatives must agree."""
    sentences = typed.typed_sentences(other, code)
    assert not faults(sentences, [each.source for each in typed.typed_sentences("en", "de")], code)


@pytest.mark.parametrize(("src", "tgt"), [("en", "nl"), ("xx", "de"), ("de", "de"), ("", "")])
def test_a_language_that_the_list_lacks_is_named(src: str, tgt: str) -> None:
    with pytest.raises(DataError, match=f"they cannot test {src or '.'} to {tgt or '.'}"):
        typed.typed_sentences(src, tgt)


def test_verdicts_are_of_the_models_translations(tiny_translator: Translator) -> None:
    written = tiny_translator.translate(["A dog.", "A cat."])[0].text
    sentences = [
        typed.TypedSentence("a", "A dog.", ("nothing", written)),
        typed.TypedSentence("b", "A cat.", ("Nothing at all.",)),
    ]
    verdicts = typed.judge(tiny_translator, sentences)
    assert [each.right for each in verdicts] == [True, False]
    assert verdicts[0] == typed.Verdict("a", "A dog.", written, True, "nothing")
    assert typed.by_topic(verdicts) == {"a": (1, 1), "b": (0, 1)}
    record = typed.to_dict(verdicts)
    assert (record["right"], record["sentences"]) == (1, 2)
    assert typed.from_dict(json.loads(json.dumps(record))) == verdicts


WORDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=5)


@given(WORDS, WORDS)
def test_near_sources_differ_by_one_word(first: list[str], second: list[str]) -> None:
    def shorter(words: list[str]) -> list[list[str]]:
        return [words[:place] + words[place + 1 :] for place in range(len(words))]

    replaced = len(first) == len(second) and sum(map(str.__ne__, first, second)) <= 1
    expected = replaced or first in shorter(second) or second in shorter(first)
    sentence, source = " ".join(first), f"{', '.join(second)}!".upper()
    assert typed.near_sources([sentence], [source]) == ({sentence} if expected else set())


def test_the_command_prints_failures_and_counts(
    tiny_checkpoint: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = typed.typed_sentences
    few = [every("en", "de")[at] for at in (0, 15, 30)]
    monkeypatch.setattr(
        typed, "typed_sentences", lambda src, tgt: few if tgt == "de" else every(src, tgt)
    )
    copy = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    asked = ["typed", "--checkpoint", copy, "--beam", 1]
    for options, why in (([], "give the languages with --languages"),
                         (["--languages", "en-nl"], "cannot test en to nl")):  # fmt: skip
        assert why in command(*asked, *options).refused
    data = {"corpora": ["mine.tsv"], "src": "en", "tgt": "de"}
    recipe = {"model": {}, "tokenizer": {}, "data": data, "training": {}}
    (copy / "metrics.json").write_text(json.dumps({"training": {"recipe": recipe}}))
    said = command(*asked).out
    assert f"{few[0].source}\n  " in said and f"  instead of: {few[0].accepted[0]}\n" in said
    record = json.loads(command(*asked, "--json").out)
    assert len(record["topics"]) == 3
    assert sum(each["right"] for each in record["verdicts"]) == record["right"]
    assert said.endswith(f"right{record['right']:>13} of 3\n")
    write_snapshots(copy)
    asked[2] = f"{copy}@20"
    assert few[0].source in command(*asked).out
