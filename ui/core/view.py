"""The view: the sidebar's choices, the settings behind it, and the request to the model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import streamlit as st

from transformer.models.catalogue import Entry, Kind, ModelRef
from transformer.search.decoding import PAPER_DECODING
from transformer.search.sampling import Sampling
from transformer.text.tokenizer import clean
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.examples import Examples, examples_for, title_of
from ui.core.languages import Languages
from ui.core.url_state import Param

#: Limit of the input box; a model's own limit is counted in tokens.
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


#: Largest values that the app offers; the search itself accepts more.
MAX_BEAM, MAX_ALPHA = 10, 2.0


@dataclass(frozen=True)
class SearchChoice(Choice):
    """The defaults are the paper's; a checkpoint may have its own, see `ui.frame.decoding`."""

    beam: Param[int] = Param("beam", url_state.whole(1, MAX_BEAM), PAPER_DECODING.beam_size)
    alpha: Param[float] = Param("alpha", url_state.number(0, MAX_ALPHA), PAPER_DECODING.alpha)
    sample: Param[bool] = url_state.switch("sample")
    temperature: Param[float] = Param("temperature", url_state.number(0.05, 3), 1.0)
    top_k: Param[int] = Param("top_k", url_state.whole(0, 100), 0)
    top_p: Param[float] = Param("top_p", url_state.number(0.05, 1), 1.0)
    seed: Param[int] = Param("seed", url_state.whole(0, 999_999), 0)

    @property
    def sampling(self) -> Sampling | None:
        """The settings of sampling, None if it is off."""
        if not self.sample:
            return None
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    def beam_size(self, samples: bool = True) -> int:
        """Return the beam size; 1 for sampling, which not every model supports (`samples`)."""
        return 1 if samples and self.sample else self.beam


@dataclass(frozen=True)
class Request:
    """One sentence for one model, and how to decode it."""

    model: ModelRef  # where it is stored, with the fingerprint of its files
    device: str  # where it runs
    sentence: str  # as the model gets it, with its language tag if it has one
    #: beam_size, alpha: settings of the search; defaults if they have no effect
    beam_size: int
    alpha: float
    prefix: tuple[int, ...] = ()  # token ids that the translation begins with
    #: a whole translation to follow (teacher forcing), as text or as token ids
    target: str | tuple[int, ...] | None = None
    sampling: Sampling | None = None  # sampling settings, or None if off
    #: src_lang, tgt_lang: language codes for a model that takes them, else None
    src_lang: str | None = None
    tgt_lang: str | None = None

    @cached_property
    def name(self) -> str:
        """A short name of the trace, which components include in their reports."""
        return hashlib.sha256(repr(self).encode("utf-8", "replace")).hexdigest()[:16]

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Tracer.trace`; those at None are left out."""
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
    """The sidebar's choices."""

    entry: Entry  # the model, as listed in this run; without a name if there is none
    device: str  # "cpu" or "cuda"
    sentence: str  # as typed; may be blank
    beam_size: int = 4  # hypotheses kept; 1 is greedy, or sampling where `sampling` says how
    alpha: float = 0.6  # exponent of the length penalty
    #: token ids that the translation must begin with; the whole of it if they end in `</s>`
    prefix: tuple[int, ...] = ()
    target: str | None = None  # a translation to follow instead of searching
    sampling: Sampling | None = None  # sampling settings, or None if off
    #: src_lang, tgt_lang: language codes as chosen, "" for none; other models may use other codes
    #: for the same languages
    src_lang: str = ""
    tgt_lang: str = ""
    languages: Languages = field(default_factory=Languages)  # of this model

    @property
    def checkpoint(self) -> str:
        """The model's name, "" if there is none."""
        return self.entry.name

    @property
    def title(self) -> str:
        """The model's name for people."""
        return title_of(self.entry)

    @property
    def path(self) -> Path:
        """The model's folder or file."""
        return self.entry.path

    @property
    def kind(self) -> Kind:
        """The kind of model; some pages do not work with all kinds."""
        return self.entry.kind

    @property
    def original(self) -> View:
        """The view of the model without its edits."""
        return replace(self, entry=replace(self.entry, ref=self.entry.ref.edited("")))

    @property
    def examples(self) -> Examples:
        """Sentences that fit the checkpoint."""
        return examples_for(self.checkpoint, self.entry.metrics)

    @cached_property
    def request(self) -> Request:
        """The request to the model, which is also the cache key of everything made from it."""
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
        return Request(
            model=self.entry.ref,
            device=self.device,
            sentence=sentence,
            beam_size=self.beam_size if searched else 1,
            # Only a beam compares translations of different length.
            alpha=self.alpha if self.beam_size > 1 and searched else SearchChoice().alpha,
            prefix=self.prefix if searched else (),
            target=target,
            sampling=self.sampling if searched else None,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
        )


def current_view() -> View:
    """Return this run's view; the frame draws the sidebar before any page."""
    view: View = st.session_state[_VIEW]
    return view


def current_entries() -> Sequence[Entry]:
    """Return this run's listing of the checkpoint folders. Not available in fragments."""
    return _entries.get()


def keep_view(view: View, entries: Sequence[Entry]) -> None:
    """Keep this run's view for the pages, and its listing of the checkpoint folders."""
    if view.checkpoint:
        url_state.settle(model=view.checkpoint, sentence=view.sentence, request=view.request)
    st.session_state[_VIEW] = view
    _entries.set(entries)


def ask_for(sentence: str) -> None:
    """Have the sidebar take this sentence in the next run, as if it had been typed there."""
    st.session_state[_ASKED] = sentence


def asked_for() -> str | None:
    """Return and forget the sentence of `ask_for`."""
    asked: str | None = st.session_state.pop(_ASKED, None)
    return asked


def say_next(sentence: str, text: str) -> None:
    """Have the pages say what to do next, in Markdown, as long as they show this sentence."""
    st.session_state[_NEXT] = sentence, text


def said_next(sentence: str) -> str:
    """Return what to do next with this sentence, "" for nothing."""
    about, text = st.session_state.get(_NEXT, ("", ""))
    return str(text) if about == sentence else ""


def count_asked() -> None:
    """Count one sentence more that the visitor asks to have translated."""
    st.session_state[_ASKS] = times_asked() + 1


def times_asked() -> int:
    """Return how often the visitor asked for a sentence, or for the same one again."""
    return int(st.session_state.get(_ASKS, 0))


def is_blank(sentence: str) -> bool:
    """Return True for a sentence that is empty once cleaned for the tokenizer."""
    return not clean(sentence)
