"""Parts of tours and lectures: stops, questions answered by the view's own model, and their sheet.

A stop names settings as the URL does, so it can set up any page. A stop of a lecture is a scene: it
has its own pictures, or shows its page. A sheet is a tour's questions and answers as a page to
print.
"""

from __future__ import annotations

import re
import tomllib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from figures.exhibit import Exhibit, Panel, Series
from figures.labels import KIND_NAMES, one_stop, plain, query_labels, shorten
from figures.paper import to_svg
from transformer.config import ModelConfig
from transformer.study.records import Study
from transformer.trace.records import Needs, Trace
from transformer.trace.removals import Head
from transformer.types import ATTENTION_KINDS, Floats
from ui.components.opening import Trial
from ui.core.doubts import headline

if TYPE_CHECKING:  # facts are written without Streamlit
    from ui.work.results import Computation

#: Maximum number of options, which have to fit on one line.
MOST_OPTIONS = 6

#: Terms that stops explain or use.
TERMS_OF_TOURS = (
    "auto-regressive", "beam", "greedy", "score", "length penalty", "α", "entropy", "softmax",
    "query", "key", "mask", "nats", "log p", "prefix", "residual", "cosine", "label smoothing",
    "BLEU", "warm-up", "cross-attention", "shifted right", "ablation", "pruning",
)  # fmt: skip

#: Options and the index of the right one.
Chosen = tuple[tuple[str, ...], int]


class Target(NamedTuple):
    """A word of a translation, and the step that writes its first token."""

    word: str
    step: int


class Broken(NamedTuple):
    """A sentence, and the head without which a word of its translation is lost."""

    trace: Trace
    target: Target
    head: Head
    trial: Trial


def _unknown(*_: Any) -> Any:
    raise ValueError("this scene has no model to remove parts from")


@dataclass(frozen=True, eq=False)
class Scene:
    """The subject of questions: one sentence through one checkpoint, with its metrics.json.

    `trained` is the length of the longest training sentence in positions, or None if unknown;
    `study` is the study of the model's heads, or None.
    """

    trace: Trace
    config: ModelConfig
    metrics: Mapping[str, Any] = field(default_factory=dict)
    trained: int | None = None
    study: Study | None = None
    #: measures the change without each part
    needs: Callable[[], Needs] = field(default=_unknown)
    #: returns the changes by each edit alone and by all, with each head counted by itself
    together: Callable[[str], Sequence[float]] = field(default=_unknown)
    #: returns the translation under edits
    without: Callable[[str], str] = field(default=_unknown)
    #: finds a sentence and the head that a word of its translation depends on
    broken: Callable[[], Broken | None] = lambda: None
    #: returns the result of a computation on the model and the trace
    result: Callable[[Computation[Any]], Any] = field(default=_unknown)
    #: returns translations during training, by number of updates
    moments: Callable[[], Mapping[int, Trace]] = dict


class UnfitError(Exception):
    """The model lacks what a scene shows; the message says what, in one line."""


@dataclass(frozen=True)
class Question:
    """A prediction to make before the picture appears; `because` then explains it.

    `ask` and `because` are Markdown, `options` are two or more different plain texts, and
    `answer` is the index of the right one. A teacher's own question has no options.
    """

    ask: str
    options: tuple[str, ...]
    answer: int
    because: str
    pictures: tuple[Panel | Series, ...] = ()  # one for each beat; the last has the answer

    @property
    def beats(self) -> int:
        """Presses until the answer appears."""
        return max(len(self.pictures) - 1, int(bool(self.ask or self.because)))

    def picture(self, beat: int) -> Panel | Series | None:
        """Return the picture at a beat; a single one is the answer."""
        at = min(beat, self.beats) + len(self.pictures) - 1 - self.beats
        return self.pictures[at] if at >= 0 else None

    def __post_init__(self) -> None:
        if not self.options:
            return
        if len(set(self.options)) != len(self.options) or len(self.options) < 2:
            raise ValueError(f"options {self.options}; expected at least two, all different")
        if not 0 <= self.answer < len(self.options):
            raise ValueError(f"answer {self.answer}; expected 0 to {len(self.options) - 1}")


Settings = Mapping[str, str]


@dataclass(frozen=True)
class StopFacts:
    """Facts of a scene for a stop's question."""

    #: options, answer: as in `Question`
    options: tuple[str, ...]
    answer: int
    values: Mapping[str, object] = field(default_factory=dict)  # fill the slots of the stop's texts
    #: page settings that depend on the trace: a step, a layer, a head
    settings: Settings = field(default_factory=dict)
    form: str = ""  # the form of the stop's texts; "" is the usual one
    pictures: tuple[Panel | Series, ...] = ()  # as in `Question`


Facts = Callable[[Scene], StopFacts]

#: Registered facts, by their names in tours.toml.
FACTS: dict[str, Facts] = {}


def fact(function: Facts) -> Facts:
    """Register facts by their function's name."""
    FACTS[function.__name__] = function
    return function


@dataclass(frozen=True)
class Stop:
    """One stop of a tour, or scene of a lecture."""

    #: title, text: of the bar; `text` is Markdown, one or two sentences. A scene's title is one
    #: sentence, and its text the teacher's notes
    title: str
    text: str
    section: str  # of the paper
    page: str  # url_path of its page
    facts: Facts | None  # returns the question's facts; None for texts without slots
    #: `ask` and `because` with slots, and `ask_x` and `because_x` of form x
    texts: Mapping[str, str]
    settings: Settings = field(default_factory=dict)  # of the page, by their names in the URL
    shows: str = ""  # id of the heading, or class of the part, that shows the answer

    def question(self, scene: Scene) -> Question:
        """Return the question about a scene."""
        return self.asked(self.facts(scene) if self.facts else None)

    def said(self, form: str = "", **values: object) -> Question:
        """Return a step of the opening in words."""
        return self.asked(StopFacts((), 0, values, form=form))

    def asked(self, facts: StopFacts | None) -> Question:
        """Return the question about facts, or without facts the texts alone."""
        if facts is None:
            return Question(self.texts.get("ask", ""), (), 0, self.texts.get("because", ""))
        ask, because = (
            (self.texts[name] + own[1:] if own.startswith("+") else own).format(**facts.values)
            for name in ("ask", "because")
            for own in (self.texts.get(f"{name}_{facts.form}", self.texts[name]),)
        )
        return Question(
            one_stop(ask), facts.options, facts.answer, one_stop(because), facts.pictures
        )


@dataclass(frozen=True)
class Tour:
    """Stops in the paper's order, or the scenes of a lecture."""

    name: str  # as in the URL
    #: title, about: in the list of tours
    title: str
    about: str
    section: str  # of the paper
    icon: str  # a Material icon
    stops: tuple[Stop, ...]
    lecture: bool = False


def read_tours(file: str, *, lecture: bool = False) -> dict[str, Tour]:
    """Return the tours of a TOML file in this folder by name; their facts must be registered."""

    def stop(facts: str = "", text: str = "", **fields: Any) -> Stop:
        texts = {
            name: fields.pop(name) for name in [*fields] if name.startswith(("ask", "because"))
        }
        return Stop(facts=FACTS[facts] if facts else None, text=text, texts=texts, **fields)

    def tour(page: str, section: str, stops: list[dict[str, Any]], **texts: str) -> Tour:
        built = (stop(**{"section": section, "page": page, **fields}) for fields in stops)
        return Tour(section=section, stops=tuple(built), lecture=lecture, **texts)

    tables = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))["tours"]
    return {table["name"]: tour(**table) for table in tables}


#: The opening: the riddle, its light, a removed head, the guess; then pages.
(OPENING_TOUR,) = read_tours("opening.toml").values()


def cell(layer: int | None, head: int | None) -> Settings:
    """Return the settings of a layer and head, 0-based; None is the mean."""
    return {
        "layer": "mean" if layer is None else str(layer + 1),
        "head": "mean" if head is None else str(head + 1),
    }


def stem(token: str) -> str:
    """Return a token without its word-start mark, unless it is only the mark."""
    return token.lstrip("▁") or "▁"


def quoted(text: str) -> str:
    """Return text in quotation marks, as Markdown that shows it literally."""
    return f"“{plain(shorten(text, 90))}”"


def unmarked(text: str) -> str:
    """Return Markdown as plain text."""
    return re.sub(r"\\(.)|[*`]", r"\1", text)


def names(tokens: Sequence[str]) -> list[str]:
    """Return the tokens without marks; repeated ones with their position, from 1."""
    plain = [stem(token) for token in tokens]
    return [
        f"{name} ({place})" if plain.count(name) > 1 else name
        for place, name in enumerate(plain, start=1)
    ]


def words(trace: Trace, until: int) -> str:
    """Return the translation before step `until`, quoted."""
    text = "".join(trace.predicted_tokens[:until]).replace("▁", " ").strip()
    return quoted(text) if text else "nothing yet"


def translation(trace: Trace) -> str:
    """Return the translation quoted, with a loop shortened as on every page."""
    return quoted(headline(trace))


def two(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options, with a second one if there is only one."""
    return tuple(options) if len(options) > 1 else (*options, "none of these")


def among(right: int, ranking: Sequence[int], labels: Sequence[str], most: int = 4) -> Chosen:
    """Return the right label and the first others of a ranking, in the order of `labels`."""
    others = [place for place in ranking if place != right][: most - 1]
    places = sorted({right, *others})
    return two([labels[place] for place in places]), places.index(right)


def numbers(right: float, wrong: Sequence[float], write: Callable[[float], str]) -> Chosen:
    """Return numbers as options, smallest first, without duplicates of the right one."""
    values = {write(value): value for value in wrong}
    values[write(right)] = right
    ordered = sorted(values, key=values.__getitem__)
    return two(ordered), ordered.index(write(right))


def counts(right: int, low: int, high: int) -> Chosen:
    """Return whole numbers around the right one as options, from `low` to `high`."""
    high = max(high, low + 1, right)
    start = min(max(low, right - MOST_OPTIONS // 2), max(low, high - MOST_OPTIONS + 1))
    values = range(start, min(high, start + MOST_OPTIONS - 1) + 1)
    return tuple(str(value) for value in values), right - start


def quarters(weight: float) -> Chosen:
    """Return ranges of a share from 0 to 1 as options."""
    options = ("below 0.25", "0.25 to 0.5", "0.5 to 0.75", "above 0.75")
    return options, min(int(weight * 4), 3)


def best(values: Floats) -> tuple[int, ...]:
    """Return the indices of the largest value."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))


_RULE = "<hr style='break-after: page; border: 0'>"
_STYLE = "<style>li { break-inside: avoid } img { max-width: 100% }</style>"


def sheet(tour: Tour, scene: Scene, address: str) -> str:
    """Return questions about a scene, and on a second sheet answers with pictures and links.

    Args: address: of the tour on this server, without the stop.
    """
    lists = ["", ""]
    for number, stop in enumerate(tour.stops, 1):
        facts = stop.facts(scene) if stop.facts else None
        asked = stop.asked(facts)
        boxes = "".join(f" \u2003□ {escape(option)}" for option in asked.options)
        right = escape(asked.options[asked.answer])
        link = escape(f"{address}&stop={number}")
        settings = {**stop.settings, **(facts.settings if facts else {})}
        picture = asked.picture(asked.beats) or map_of(settings, scene.trace)
        shown = "" if picture is None else _image(picture)
        lists[0] += f"<li>{escape(unmarked(asked.ask))}<p>{boxes}</li>"
        lists[1] += (
            f"<li><b>{right}</b>. {escape(unmarked(asked.because))}{shown}"
            f"<p><a href='{link}'>{escape(stop.title)}</a>: <small>{link}</small></li>"
        )
    body = _RULE.join(f"<ol>{items}</ol>" for items in lists)
    head = f"<!doctype html><meta charset=utf-8><title>{escape(tour.title)}</title>{_STYLE}"
    return f"{head}<h1>{escape(tour.title)}</h1>{body}"


def map_of(settings: Settings, trace: Trace) -> Panel | None:
    """Return the map of attention that settings name, or None if there is none."""
    kind = next((name for name in ATTENTION_KINDS if name == settings.get("kind")), None)
    if kind is None and {"step", "layer"} & settings.keys():
        kind = "cross"
    if kind is None:
        return None
    places = [settings.get(name, "mean") for name in ("layer", "head")]
    some = tuple(slice(None) if at == "mean" else slice(int(at) - 1, int(at)) for at in places)
    maps = trace.attention(kind)[some]
    if not maps.size:  # a head of the study's model
        return None
    keys = trace.tgt_tokens if kind == "decoder_self" else trace.src_tokens
    where = ", ".join(f"{name} {at}" for name, at in zip(("layer", "head"), places, strict=True))
    title = f"{KIND_NAMES[kind]}, {where}"
    weights, rows = maps.mean(axis=(0, 1)), query_labels(trace, kind)
    return Panel(title, weights, rows, tuple(keys), "query", "key")


def _image(picture: Panel | Series) -> str:
    code = b64encode(to_svg(Exhibit("picture", picture.title, "", (picture,)))).decode()
    return f"<p><img alt='{escape(picture.title)}' src='data:image/svg+xml;base64,{code}'>"
