"""The view: the sidebar's settings, the request to the model, and the sides on screen.

Functions that draw a `Side` serve both a page and Compare, which calls them twice with separate
widget keys and settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import streamlit as st

from transformer.models.catalogue import Entry, Kind, ModelRef
from transformer.search.request import PAPER_DECODING
from transformer.search.rules import Sampling
from transformer.text.tokenizer import clean
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.examples import Example, Examples, examples_for, languages_of_training, title_of
from ui.core.languages import Languages, nearest_code, tag_of, typed_tag
from ui.core.url_state import HEAD, LAYER, Param
from ui.core.widgets import Choice

#: Input box limit; models have their own limits in tokens.
MAX_CHARACTERS = 20_000

_VIEW = "headlight_view"
_ASKED = "headlight_asked"
_ASKS = "headlight_asks"
_NEXT = "headlight_next"
_entries: ContextVar[Sequence[Entry]] = ContextVar("headlight_entries")

CHECKPOINT: Param[str] = Param("checkpoint", str, "")
DEVICE: Param[str] = Param("device", str, "")
SENTENCE: Param[str] = Param("sentence", url_state.text(MAX_CHARACTERS), "")
SRC_LANG: Param[str] = Param("src_lang", url_state.text(60), "")
TGT_LANG: Param[str] = Param("tgt_lang", url_state.text(60), "")
#: A task whose prefix is put before the sentence, "" for none.
TASK: Param[str] = Param("task", url_state.text(200), "")


#: Largest values on offer, and the negative of the exponent; the search accepts more.
MAX_BEAM, MAX_ALPHA = 10, 2.0


@dataclass(frozen=True)
class SearchChoice(Choice):
    """Search settings; the paper's by default, see `ui.frame.steering` for a checkpoint's own."""

    beam: Param[int] = Param("beam", url_state.whole(1, MAX_BEAM), PAPER_DECODING.beam_size)
    alpha: Param[float] = Param(
        "alpha", url_state.number(-MAX_ALPHA, MAX_ALPHA), PAPER_DECODING.alpha
    )
    sample: Param[bool] = url_state.switch("sample")
    temperature: Param[float] = Param("temperature", url_state.number(0.05, 3), 1.0)
    top_k: Param[int] = Param("top_k", url_state.whole(0, 100), 0)
    top_p: Param[float] = Param("top_p", url_state.number(0.05, 1), 1.0)
    seed: Param[int] = Param("seed", url_state.whole(0, 999_999), 0)

    @property
    def sampling(self) -> Sampling | None:
        """Sampling settings, or None if off."""
        if not self.sample:
            return None
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    def beam_size(self, samples: bool = True) -> int:
        """Return the beam size, 1 if the model `samples` and sampling is on."""
        return 1 if samples and self.sample else self.beam


#: Names and values of arguments, in order.
Cells = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Request:
    """A sentence for a model, with decoding settings."""

    model: ModelRef
    device: str
    sentence: str  # as the model reads it, with a language tag or prefix if chosen
    #: beam_size, alpha: search settings; defaults where they have no effect
    beam_size: int
    alpha: float
    prefix: tuple[int, ...] = ()  # first token ids of the translation
    #: a translation to follow (teacher forcing), as text or token ids
    target: str | tuple[int, ...] | None = None
    sampling: Sampling | None = None  # sampling settings, or None if off
    #: src_lang, tgt_lang: language codes, None for models without them
    src_lang: str | None = None
    tgt_lang: str | None = None
    cells: Cells = ()  # arguments of `transformer.attribution.cells.measured`, () for weights

    @cached_property
    def name(self) -> str:
        """Short name of the trace; components include it in their reports."""
        return hashlib.sha256(repr(self).encode("utf-8", "replace")).hexdigest()[:16]

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Tracer.trace` that are not None."""
        arguments: dict[str, Any] = {}
        if self.target is not None:
            whole = self.target
            arguments["target"] = whole if isinstance(whole, str) else list(whole)
        elif self.prefix:
            arguments["prefix"] = list(self.prefix)
        arguments |= {"beam_size": self.beam_size, "alpha": self.alpha}
        for name in ("sampling", "src_lang", "tgt_lang"):
            if getattr(self, name) is not None:
                arguments[name] = getattr(self, name)
        return arguments


@dataclass(frozen=True)
class View:
    """The sidebar's settings."""

    entry: Entry  # model as listed in this run; its name is "" if there is no model
    device: str  # "cpu" or "cuda"
    sentence: str  # as typed; may be blank
    beam_size: int = 4  # 1 is greedy, or sampling if `sampling` is set
    alpha: float = 0.6  # exponent of the length penalty
    #: first token ids of the translation, or all of them if they end in `</s>`
    prefix: tuple[int, ...] = ()
    target: str | None = None  # a translation to follow in place of a search
    sampling: Sampling | None = None  # sampling settings, or None if off
    #: src_lang, tgt_lang: chosen language codes, or ""
    src_lang: str = ""
    tgt_lang: str = ""
    languages: Languages = field(default_factory=Languages)  # the model's languages
    task: str = ""  # key in the entry's `prefixes`; another model may lack it
    cells: Cells = ()  # measure of the trace's maps, see `Request`

    @property
    def checkpoint(self) -> str:
        """Model name, or ""."""
        return self.entry.name

    @property
    def title(self) -> str:
        """Display name of the model."""
        return title_of(self.entry)

    @property
    def path(self) -> Path:
        """Folder or file of the model."""
        return self.entry.path

    @property
    def kind(self) -> Kind:
        """Model kind; some pages work with some kinds only."""
        return self.entry.kind

    @property
    def original(self) -> Self:
        """The same view of the unedited model."""
        return replace(self, entry=replace(self.entry, ref=self.entry.ref.edited("")))

    @property
    def of_weights(self) -> Self:
        """The same view with attention weights in its maps."""
        return replace(self, cells=()) if self.cells else self

    @property
    def examples(self) -> Examples:
        """Example sentences for the model."""
        return examples_for(self.checkpoint, self.entry.metrics)

    @property
    def example(self) -> Example | None:
        """The example that the sentence is or resembles, see `Examples.like`."""
        return self.examples.like(self.sentence)

    @property
    def spoken(self) -> tuple[str, str]:
        """Languages of sentence and translation for `lang` attributes, "" if unknown."""
        model, stack = self.languages, self.entry.stack
        reads, writes = languages_of_training(self.entry.whole, self.entry.metrics)
        if self.examples.kind == "letters":
            reads = writes = ""
        if stack and stack.task != "translate":
            writes = reads
        reads = model.source or reads
        writes = model.target or writes
        if self.src_lang:
            reads = nearest_code(model.sources, self.src_lang) or reads
        if self.tgt_lang:
            writes = nearest_code(model.targets, self.tgt_lang) or writes
        if model.tagged:
            writes = typed_tag(self.sentence).strip("><") or writes
        return tag_of(reads), tag_of(writes)

    @cached_property
    def request(self) -> Request:
        """The request to the model, and the cache key of all its results."""
        target: str | tuple[int, ...] | None = self.target
        config = self.entry.config
        if target is None and config is not None and self.prefix[-1:] == (config.eos_id,):
            target = self.prefix  # there is nothing to search for
        searched = target is None
        sentence, src_lang, tgt_lang = self.sentence, None, None
        if self.src_lang or self.tgt_lang:
            sentence, src_lang, tgt_lang = self.languages.resolve(
                self.sentence, self.src_lang, self.tgt_lang
            )
        if self.task in self.entry.prefixes:
            sentence = self.entry.prefixed(sentence, self.task)
        return Request(
            model=self.entry.ref,
            device=self.device,
            sentence=sentence,
            beam_size=self.beam_size if searched else 1,
            # Only beam search compares translations of different lengths.
            alpha=self.alpha if self.beam_size > 1 and searched else SearchChoice().alpha,
            cells=self.cells,
            prefix=self.prefix if searched else (),
            target=target,
            sampling=self.sampling if searched else None,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
        )

    @property
    def finished(self) -> Request:
        """The request, of the finished model for a moment of its training."""
        if self.entry.updates is None:
            return self.request
        return replace(self.request, model=self.entry.ref.after(None))

    def step(self, count: int) -> int | None:
        """Return the stored step of `count` as an index from 0, or None if there is none.

        In training time, where translations differ in length, a later step is the last one.
        """
        late = self.entry.updates is not None and (url_state.get(url_state.STEP) or 0) > count
        return count - 1 if late else url_state.index(url_state.STEP, count)


def current_view() -> View:
    """Return this run's view."""
    view: View = st.session_state[_VIEW]
    return view


def current_entries() -> Sequence[Entry]:
    """Return this run's checkpoint listing. Not available in fragments."""
    return _entries.get()


def keep_view(view: View, entries: Sequence[Entry]) -> None:
    """Keep this run's view and checkpoint listing for the pages."""
    if view.checkpoint:
        # Moments of a training share tokens and heads, so that what is chosen stays chosen.
        url_state.settle(model=view.entry.whole, sentence=view.sentence, request=view.finished)
    st.session_state[_VIEW] = view
    _entries.set(entries)


def ask_for(sentence: str) -> None:
    """Have the next run take this sentence as if it had been typed in the sidebar."""
    st.session_state[_ASKED] = sentence


def asked_for() -> str | None:
    """Return and forget the sentence passed to `ask_for`."""
    asked: str | None = st.session_state.pop(_ASKED, None)
    return asked


def say_next(sentence: str, text: str) -> None:
    """Set a Markdown hint that pages show with this sentence."""
    st.session_state[_NEXT] = sentence, text


def said_next(sentence: str) -> str:
    """Return the hint for this sentence, or ""."""
    about, text = st.session_state.get(_NEXT, ("", ""))
    return str(text) if about == sentence else ""


def count_asked() -> None:
    """Count a translation that the visitor requested."""
    st.session_state[_ASKS] = times_asked() + 1


def times_asked() -> int:
    """Return the number of translations that the visitor requested."""
    return int(st.session_state.get(_ASKS, 0))


def is_blank(sentence: str) -> bool:
    """Return True if cleaning for the tokenizer leaves nothing."""
    return not clean(sentence)


T = TypeVar("T")


def other(param: Param[T]) -> Param[T]:
    """Return side B's copy of a setting: `token` becomes `other_token`."""
    return replace(param, name=f"other_{param.name}")


def _parse_cell(raw: str) -> str:
    return raw if raw in ("same", "mean") else str(url_state.whole(1, 99_999)(raw))


#: Layer and head of B: a number from 1, "mean", or "same" as A.
OTHER_LAYER: Param[str] = Param("other_layer", _parse_cell, "same")
OTHER_HEAD: Param[str] = Param("other_head", _parse_cell, "same")


@dataclass(frozen=True, eq=False)
class Side:
    """A view with its trace."""

    view: View
    trace: Trace
    letter: str = ""  # "A" or "B" on Compare, otherwise ""
    follows: bool = False  # True for a B that reads A's translation
    beside: list[Side] = field(default_factory=list)  # sides on screen, on Compare only

    @property
    def first(self) -> Side | None:
        """A, if this is B and A is on screen."""
        return self.beside[0] if self.letter == "B" and len(self.beside) > 1 else None

    @property
    def lead(self) -> str:
        """Markdown prefix with the letter, or ""."""
        return f"**{self.letter}** · " if self.letter else ""

    def key(self, name: str) -> str:
        """Return this side's key of a widget or component."""
        return f"{name}_{self.letter}" if self.letter else name

    def own(self, param: Param[T]) -> Param[T]:
        """Return this side's setting: B has its own, see `other`."""
        return other(param) if self.letter == "B" else param

    @property
    def cell_params(self) -> tuple[Param[Any], Param[Any]]:
        """This side's layer and head settings."""
        return (OTHER_LAYER, OTHER_HEAD) if self.letter == "B" else (LAYER, HEAD)

    def cell_now(
        self, first: tuple[int | None, int | None] | None = None
    ) -> tuple[int | None, int | None]:
        """Return this side's layer and head, counted from 1; None means all.

        Args: first: A's layer and head, which B follows by default; the stored values if omitted.
        """
        shared = first or (url_state.get(LAYER), url_state.get(HEAD))
        layer, head = (
            same if raw == "same" else None if raw in (None, "mean") else int(raw)
            for raw, same in zip(map(url_state.get, self.cell_params), shared, strict=True)
        )
        return layer, head
