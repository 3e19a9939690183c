"""Names of models for people, and example sentences, for each kind of checkpoint."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformer.checkpoint.folder import kind_of
from transformer.models.catalogue import Entry
from transformer.training.corpus import TREE
from ui.core.languages import name_of


@dataclass(frozen=True)
class Act:
    """A sentence of a riddle."""

    sentence: str
    #: noun, other: what the pronoun stands for, and what else it might
    noun: str
    other: str
    #: translated, wanted: the noun in the target language, and the pronoun that it needs
    translated: str
    wanted: str
    known: str = ""  # what is known of other models here, as a sentence


@dataclass(frozen=True)
class Riddle:
    """A pronoun whose translation depends on the noun that it stands for, in a few sentences.

    From each sentence to the next, the models turn to another noun; at the last one they fail.
    """

    pronoun: str  # as in the sentences
    rule: str  # of the target language
    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Example:
    """An example sentence."""

    sentence: str  # as a visitor would type it
    #: the source word on whose translation the player opens; "" for the sharpest look
    watch: str = ""
    beside: str = ""  # the same sentence with one word changed, for Compare

    def watched(self, tokens: Sequence[str]) -> list[int]:
        """Return the positions of the word to watch."""
        found = enumerate(token.lstrip("▁").lower() for token in tokens)
        return [position for position, word in found if word == self.watch != ""]


@dataclass(frozen=True)
class Examples:
    """The examples for one kind of checkpoint."""

    #: "sentences", "captions" or "letters", followed by " de" in German; checkpoints of one kind
    #: share sentences
    kind: str
    language: str  # its code, "" for letters
    task: str  # what the model does
    hint: str  # what to type
    items: tuple[Example, ...]  # the examples; the app opens with the first
    riddles: Mapping[str, Riddle]  # what the opening asks, by the language translated into

    def find(self, sentence: str) -> Example | None:
        """Return the example with this sentence, or None."""
        return next((item for item in self.items if item.sentence == sentence), None)


def _read(kind: str, table: Mapping[str, Any]) -> Examples:
    riddles = {
        code: Riddle(each["pronoun"], each["rule"], tuple(Act(*act) for act in each["acts"]))
        for code, each in table.get("riddles", {}).items()
    }
    items = tuple(Example(*item) for item in table["items"])
    return Examples(kind, table["language"], table["task"], table["hint"], items, riddles)


_KINDS = {
    kind: _read(kind, table)
    for kind, table in tomllib.loads(
        Path(__file__).with_name("examples.toml").read_text("utf-8")
    ).items()
}

#: The languages at the end of a model's name, as in everyday-de-en.
_NAMED = re.compile(r"-([a-z]{2,3})-([a-z]{2,3})$")

#: Groups of models by what they do, in the order of lists.
GROUPS = ("Translators", "Beyond translation", "Other models and files")

#: The beginning of the names of models of one stack that do not translate.
_STACKS = {"continue": "GPT-like: continues", "fill": "BERT-like: fills gaps in"}


def examples_for(checkpoint: str, metrics: Mapping[str, Any] | None = None) -> Examples:
    """Return the examples that fit a checkpoint's name and metrics; by default sentences."""
    name = checkpoint.lower()
    if "reverse" in name or "reversal" in corpora_of_training(metrics or {}):
        return _KINDS["letters"]
    source, target = languages_of_training(checkpoint, metrics)
    if target == TREE:
        return _KINDS["trees"]
    suffix = " de" if source == "de" else ""
    if "multi30k" in name:
        return _KINDS[f"captions{suffix}"]
    sentences = _KINDS[f"sentences{suffix}"]
    if "everyday" in name or "tatoeba" in name:
        return replace(sentences, task="translates everyday sentences")
    return sentences


def data_of_training(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a model was trained on, from its untrusted record; {} if unknown."""
    match metrics:
        case {"training": {"recipe": {"data": dict(data)}}}:
            return data
    return {}


def corpora_of_training(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the corpora in a model's untrusted record."""
    corpora = data_of_training(metrics).get("corpora")
    return tuple(map(str, corpora)) if isinstance(corpora, list | tuple) else ()


def languages_of_training(
    checkpoint: str, metrics: Mapping[str, Any] | None = None
) -> tuple[str, str]:
    """Return the codes of source and target, "" if unknown; untrusted metrics come first.

    Without a record of training they are read from the end of the name, or of the imported one's.
    """
    names = [checkpoint]
    match metrics:
        case {"training": {"recipe": {"data": {"src": str(source), "tgt": str(target)}}}}:
            return source, target
        case {"training": {"recipe": {"data": {"src": str(source)}}}}:
            return source, ""
        case {"imported": {"source": str(source)}}:
            names.append(source)
    for named in filter(None, (_NAMED.search(name.lower()) for name in names)):
        if all(name_of(code) != code for code in named.groups()):
            return named[1], named[2]
    return "", ""


def title_of(entry: Entry) -> str:
    """Return a model's name for people: what it does, languages and text, as far as recorded.

    The name of its folder stands for a text that is unknown, and alone if the languages are too.
    """
    return _title(entry) + ("" if entry.updates is None else f", {entry.updates:,} updates")


def _title(entry: Entry) -> str:
    if examples_for(entry.whole, entry.metrics).kind == "letters":
        return "Toy: reverses letters"
    codes = languages_of_training(entry.whole, entry.metrics)
    source, target = map(name_of, codes)
    text = kind_of(corpora_of_training(entry.metrics)).removesuffix(" sentences") or entry.whole
    if source == codes[0] or entry.kind == "archive":
        return entry.whole
    if entry.stack is not None and entry.stack.task != "translate":
        return f"{_STACKS[entry.stack.task]} {source}, {text}"
    if codes[1] == TREE:
        return f"Parser: trees of {source}"
    if target == codes[1]:
        return entry.whole
    relative = entry.config is not None and entry.config.positions == "relative"
    built = ", one stack" if entry.stack else ", T5-like" * relative
    return f"{source} → {target}, {text}{built}"


def group_of(entry: Entry) -> str:
    """Return the one of `GROUPS` that a model belongs to."""
    source, target = languages_of_training(entry.whole, entry.metrics)
    letters = examples_for(entry.whole, entry.metrics).kind == "letters"
    if letters or target == TREE or (entry.stack and entry.stack.task != "translate"):
        return GROUPS[1]
    ours = entry.kind in ("checkpoint", "one_stack") or (entry.kind == "huggingface" and source)
    return GROUPS[0] if ours else GROUPS[2]


def by_title(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the models' names for people by their own, grouped by what they do.

    Two that are called alike are followed by their own names.
    """
    every = [(GROUPS.index(group_of(each)), title_of(each), each.name) for each in entries]
    count = Counter(title for _, title, _ in every)
    return {
        name: title if count[title] == 1 else f"{title} ({name})"
        for _, title, name in sorted(every)
    }
