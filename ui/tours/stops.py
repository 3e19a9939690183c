"""What a guided tour is made of: stops, and questions whose answers come from the view's own model.

No Streamlit here. A stop names settings by the names that the URL uses, so it can set any page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from figures.markdown import plain, shorten
from transformer.config import ModelConfig
from transformer.trace.records import Trace
from transformer.types import Floats

#: Options of a question at most; more do not fit one line.
MOST_OPTIONS = 6

#: Options and the index of the right one.
Chosen = tuple[tuple[str, ...], int]


@dataclass(frozen=True, eq=False)
class Scene:
    """What a question may ask about: one sentence through one checkpoint.

    Attributes:
        trace: of the sentence on the left.
        config: the checkpoint's.
        metrics: its metrics.json; may hold nothing.
        trained: positions of the longest training sentence, where the checkpoint says so.
    """

    trace: Trace
    config: ModelConfig
    metrics: Mapping[str, Any] = field(default_factory=dict)
    trained: int | None = None


@dataclass(frozen=True)
class Question:
    """Something to predict before the picture is shown.

    Attributes:
        ask: Markdown.
        options: plain text, at least two, none twice.
        answer: index of the right one.
        because: Markdown, what the numbers say; shown after a choice.
    """

    ask: str
    options: tuple[str, ...]
    answer: int
    because: str

    def __post_init__(self) -> None:
        if len(set(self.options)) != len(self.options) or len(self.options) < 2:
            raise ValueError(f"options {self.options}; expected at least two, all different")
        if not 0 <= self.answer < len(self.options):
            raise ValueError(f"answer {self.answer}; expected 0 to {len(self.options) - 1}")


Settings = Mapping[str, str]


def _nothing(scene: Scene) -> Settings:
    return {}


@dataclass(frozen=True)
class Stop:
    """One stop of a tour.

    Attributes:
        title, text: what it is about; `text` is Markdown, one or two sentences.
        section: of the paper.
        page: the page it is on, by url_path.
        question: made from the view.
        settings: what the page should show, by URL names, whatever the checkpoint.
        look: more settings, found in the trace: a step, a layer, a head.
        example: which example sentence, from 0.
    """

    title: str
    text: str
    section: str
    page: str
    question: Callable[[Scene], Question]
    settings: Settings = field(default_factory=dict)
    look: Callable[[Scene], Settings] = _nothing
    example: int = 0


@dataclass(frozen=True)
class Tour:
    """Stops in the paper's order.

    Attributes:
        name: as in the URL.
        title, about: on the list of tours.
        section: of the paper.
        icon: a Material icon.
    """

    name: str
    title: str
    about: str
    section: str
    icon: str
    stops: tuple[Stop, ...]


def cell(layer: int | None, head: int | None) -> Settings:
    """The settings of a layer and head, 0-based; None is the mean."""
    return {
        "layer": "mean" if layer is None else str(layer + 1),
        "head": "mean" if head is None else str(head + 1),
    }


def shown(token: str) -> str:
    """A token for the eye: without the mark of a word's start, unless it is nothing else."""
    return token.lstrip("▁") or "▁"


def quoted(text: str) -> str:
    """Text of a user or a model in quotation marks, as Markdown that shows it as it is."""
    return f"“{plain(shorten(text, 90))}”"


def names(tokens: Sequence[str]) -> list[str]:
    """The tokens for the eye, those that occur twice with their place, from 1."""
    plain = [shown(token) for token in tokens]
    return [
        f"{name} ({place})" if plain.count(name) > 1 else name
        for place, name in enumerate(plain, start=1)
    ]


def words(trace: Trace, until: int) -> str:
    """The translation before step `until`, quoted."""
    text = "".join(trace.predicted_tokens[:until]).replace("▁", " ").strip()
    return quoted(text) if text else "nothing yet"


def two(options: Sequence[str]) -> tuple[str, ...]:
    """The options, and one more where a very short sentence leaves no other."""
    return tuple(options) if len(options) > 1 else (*options, "none of these")


def among(right: int, ranking: Sequence[int], labels: Sequence[str], most: int = 4) -> Chosen:
    """Options out of `labels`: the right one and the first others of a ranking, in their order."""
    others = [place for place in ranking if place != right][: most - 1]
    places = sorted({right, *others})
    return two([labels[place] for place in places]), places.index(right)


def numbers(right: float, wrong: Sequence[float], write: Callable[[float], str]) -> Chosen:
    """Options that are numbers, smallest first; those that read like the right one are left out."""
    values = {write(value): value for value in wrong}
    values[write(right)] = right
    ordered = sorted(values, key=values.__getitem__)
    return two(ordered), ordered.index(write(right))


def counts(right: int, low: int, high: int, most: int = MOST_OPTIONS) -> Chosen:
    """Options that are whole numbers around the right one, from `low` to `high`."""
    high = max(high, low + 1, right)
    start = min(max(low, right - most // 2), max(low, high - most + 1))
    values = range(start, min(high, start + most - 1) + 1)
    return tuple(str(value) for value in values), right - start


def quarters(weight: float) -> Chosen:
    """Options that are ranges of a share from 0 to 1."""
    options = ("below 0.25", "0.25 to 0.5", "0.5 to 0.75", "above 0.75")
    return options, min(int(weight * 4), 3)


def best(values: Floats) -> tuple[int, ...]:
    """The indices of the largest value."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))
