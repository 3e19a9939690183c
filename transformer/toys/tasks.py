"""The toy tasks: pairs of texts made by rule, of which some are held out."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from transformer.text.tokenizer import Tokenizer, train_tokenizer
from transformer.training.data import Corpus, split_by_source

Rng = random.Random

#: Longest string of the tasks on letters.
MAX_LETTERS = 10
_LETTERS = string.ascii_lowercase[:12]
#: French puts these colours behind the noun, and has one form of them for all these nouns.
_NOUNS = {
    "dog": "chien", "cat": "chat", "bird": "oiseau", "tree": "arbre", "book": "livre",
}  # fmt: skip
_COLOURS = {
    "red": "rouge", "green": "vert", "black": "noir", "white": "blanc", "yellow": "jaune",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One toy task.

    Attributes:
        title: on screen.
        about: one sentence of Markdown.
        source: draws a source.
        answer: the right output for it.
        look: what a head of cross-attention that helps would show.
        probe: the source whose attention maps are recorded; it is held out.
        pieces: whether a token is a character or a word.
        updates: enough to solve it with the default settings.
    """

    title: str
    about: str
    source: Callable[[Rng], str]
    answer: Callable[[str], str]
    look: str
    probe: str
    pieces: Literal["char", "bpe"] = "char"
    updates: int = 900


def _letters(rng: Rng) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.randint(1, MAX_LETTERS)))


def _numbers(rng: Rng) -> str:
    return f"{rng.randint(0, 99):02}+{rng.randint(0, 99):02}"


def _sum(text: str) -> str:
    first, second = text.split("+")
    return f"{int(first) + int(second):03}"


def _phrases(rng: Rng) -> str:
    nouns = rng.choices(list(_NOUNS), k=rng.randint(1, 4))
    colours = list(_COLOURS)
    return " ".join(f"{rng.choice(colours)} {noun}" for noun in nouns)


def _french(text: str) -> str:
    words = text.split()
    return " ".join(
        f"{_NOUNS[noun]} {_COLOURS[colour]}"
        for colour, noun in zip(words[::2], words[1::2], strict=True)
    )


TASKS: dict[str, Task] = {
    "reverse": Task(
        "Reverse", "A string backwards: `abc` becomes `cba`.",
        _letters, lambda text: text[::-1],
        "a head whose map is a diagonal from top right to bottom left.",
        "facebadlik",
    ),
    "copy": Task(
        "Copy", "The same string again.", _letters, lambda text: text,
        "a head whose map is a diagonal from top left to bottom right.",
        "facebadlik",
    ),
    "sort": Task(
        "Sort", "The letters in alphabetical order: `cab` becomes `abc`.",
        _letters, lambda text: "".join(sorted(text)),
        "a head that lights, in each row, the letter written next, wherever it is.",
        "facebadlik",
    ),
    "add": Task(
        "Add", "The sum of two numbers below 100: `38+07` becomes `045`.",
        _numbers, _sum,
        "a head that lights the two digits which the next digit of the sum needs.",
        "38+57", updates=1_500,
    ),
    "translate": Task(
        "Translate ten words",
        "English to French, where the colour follows its noun: `red dog` becomes `chien rouge`.",
        _phrases, _french,
        "a head that goes back and forth, as each colour follows its noun.",
        "red dog black cat yellow bird green tree", "bpe",
    ),
}  # fmt: skip


def make_corpus(name: str, size: int = 12_000, seed: int = 1) -> Corpus:
    """Make pairs of a task; a twentieth of the sources, and the probe, are held out as `val`."""
    task, rng = TASKS[name], Rng(seed)
    sources = {task.source(rng) for _ in range(size)} - {task.probe}
    pairs = [(text, task.answer(text)) for text in sorted(sources)]
    train, val, _ = split_by_source(pairs, (0.95, 0.05, 0.0))
    return Corpus(train, ((task.probe, task.answer(task.probe)), *val))


def make_tokenizer(name: str, corpus: Corpus) -> Tokenizer:
    """Train the task's joint tokenizer, of characters or of whole words."""
    texts = [text for pair in corpus.train for text in pair]
    return train_tokenizer(texts, 128, model_type=TASKS[name].pieces, fewer=True)
