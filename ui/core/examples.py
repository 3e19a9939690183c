"""Display names and example sentences for each kind of checkpoint."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformer.checkpoint.folder import kind_of
from transformer.models.catalogue import Entry
from transformer.text.marks import unmarked
from transformer.training.corpus import TREE
from ui.core.languages import name_of


@dataclass(frozen=True)
class Act:
    """A sentence of a riddle."""

    sentence: str
    #: noun, other: the pronoun's referent, and the noun it could be mistaken for
    noun: str
    other: str
    #: translated, wanted: the referent in the target language, and the pronoun that agrees with it
    translated: str
    wanted: str
    known: str = ""  # a sentence on how other models handle this one
    mistaken: str = ""  # the other noun in the target language
    unwanted: str = ""  # its pronoun


@dataclass(frozen=True)
class Example:
    """An example sentence."""

    sentence: str  # as a visitor would type it
    #: the source word at whose translation the player opens; "" for the sharpest attention
    watch: str = ""
    beside: str = ""  # the same sentence with one word changed, for Compare

    def watched(self, tokens: Sequence[str]) -> list[int]:
        """Return the positions of the word to watch."""
        words = enumerate(token.lstrip("▁").lower() for token in unmarked(tokens))
        return [position for position, word in words if word == self.watch != ""]


@dataclass(frozen=True)
class Riddle:
    """A pronoun whose translation depends on its referent, in a few sentences.

    The referent changes from sentence to sentence; in the last, the models get it wrong.
    """

    pronoun: str  # as in the sentences
    rule: str  # agreement rule of the target language
    negation: str  # the word of the target language that negates the last act
    acts: tuple[Act, ...]

    @property
    def examples(self) -> tuple[Example, ...]:
        """Return the acts as examples, whose player opens on the pronoun."""
        return tuple(Example(act.sentence, self.pronoun) for act in self.acts)


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
    riddles: Mapping[str, Riddle]  # riddles of the opening by target language

    def find(self, sentence: str) -> Example | None:
        """Return the example with this sentence, the opening's included, or None."""
        known = (*self.items, *(act for riddle in self.riddles.values() for act in riddle.examples))
        return next((item for item in known if item.sentence == sentence), None)

    def like(self, sentence: str) -> Example | None:
        """Return the example with this sentence, or one with its first word to watch, or None.

        A riddle's sentence is compared with the one with the other noun.
        """
        words = re.findall(r"\w+", sentence.lower())
        watch = next((item.watch for item in self.items if item.watch in words), "")
        acts = [act.sentence for riddle in self.riddles.values() for act in riddle.acts[:2]]
        beside = acts[acts.index(sentence) ^ 1] if sentence in acts else ""
        return self.find(sentence) or (Example(sentence, watch, beside) if watch else None)


def _read(kind: str, table: Mapping[str, Any]) -> Examples:
    riddles = {
        code: Riddle(**{**riddle, "acts": tuple(Act(*act) for act in riddle["acts"])})
        for code, riddle in table.get("riddles", {}).items()
    }
    items = tuple(Example(*item) for item in table["items"])
    return Examples(kind, table["language"], table["task"], table["hint"], items, riddles)


_TABLES = tomllib.loads(Path(__file__).with_name("examples.toml").read_text("utf-8"))
#: What a model with a trait is for.
_USES: dict[str, str] = _TABLES.pop("uses")
_KINDS = {kind: _read(kind, table) for kind, table in _TABLES.items()}

#: Languages at the end of a model name, as in everyday-de-en.
_NAMED = re.compile(r"-([a-z]{2,3})-([a-z]{2,3})$")

#: Model groups, in display order.
GROUPS = ("Translators", "Beyond translation", "Other models and files")

#: Title prefixes of one-stack models, by task.
_STACKS = {"continue": "GPT-like: continues", "fill": "BERT-like: fills gaps in"}


def examples_for(checkpoint: str, metrics: Mapping[str, Any] | None = None) -> Examples:
    """Return the examples for a checkpoint's name and metrics; sentences by default."""
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
    """Return the training data in an untrusted training record, or {} if unknown."""
    match metrics:
        case {"training": {"recipe": {"data": dict(data)}}}:
            return data
    return {}


def corpora_of_training(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the corpus names in an untrusted training record."""
    corpora = data_of_training(metrics).get("corpora")
    return tuple(map(str, corpora)) if isinstance(corpora, list | tuple) else ()


def languages_of_training(
    checkpoint: str, metrics: Mapping[str, Any] | None = None
) -> tuple[str, str]:
    """Return source and target language codes, "" if unknown.

    The untrusted training record takes precedence over the model name and its imported name.
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
    """Return a model's display name: task, languages and training text.

    The folder name replaces an unknown text, or the whole title if the languages are unknown.
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


def purpose_of(entry: Entry) -> str:
    """Return what a model is for, as a sentence; "" if that is unknown."""
    examples = examples_for(entry.whole, entry.metrics)
    codes = languages_of_training(entry.whole, entry.metrics)
    task = entry.stack.task if entry.stack else ""
    relative = entry.config is not None and entry.config.positions == "relative"
    captions = examples.kind.partition(" ")[0] == "captions"
    traits = (examples.kind, task, codes[1], "relative" * relative, "captions" * captions)
    use = next((_USES[trait] for trait in traits if trait in _USES), "")
    languages = f"everyday sentences from {name_of(codes[0])} into {name_of(codes[1])}"
    return f"Use it for {use or languages}." if use or all(codes) else ""


def group_of(entry: Entry) -> str:
    """Return the model's group, one of `GROUPS`."""
    source, target = languages_of_training(entry.whole, entry.metrics)
    letters = examples_for(entry.whole, entry.metrics).kind == "letters"
    if letters or target == TREE or (entry.stack and entry.stack.task != "translate"):
        return GROUPS[1]
    ours = entry.kind in ("checkpoint", "one_stack") or (entry.kind == "huggingface" and source)
    return GROUPS[0] if ours else GROUPS[2]


def by_title(entries: Iterable[Entry]) -> dict[str, str]:
    """Return display titles by model name, in the order of `GROUPS`.

    Models with the same title are told apart by their names in parentheses.
    """
    every = [(GROUPS.index(group_of(entry)), title_of(entry), entry.name) for entry in entries]
    count = Counter(title for _, title, _ in every)
    return {
        name: title if count[title] == 1 else f"{title} ({name})"
        for _, title, name in sorted(every)
    }
