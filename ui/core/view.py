"""The view: what the sidebar says, in one frozen record, and the settings it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from transformer.catalogue import Kind
from transformer.search.sampling import Sampling
from transformer.text.tokenizer import clean
from ui.core.examples import Examples, examples_for
from ui.core.url_state import Param

#: The input box takes no more; whether a sentence is too long for a model is counted in tokens.
MAX_CHARACTERS = 20_000


_VIEW = "headlight_view"


def _parse_sentence(raw: str) -> str:
    if len(raw) > MAX_CHARACTERS:
        raise ValueError("too long")
    return raw


CHECKPOINT: Param[str] = Param("checkpoint", str, "")


DEVICE: Param[str] = Param("device", str, "")


SENTENCE: Param[str] = Param("sentence", _parse_sentence, "")


@dataclass(frozen=True)
class View:
    """What the sidebar says.

    Attributes:
        checkpoint: its name, "" where there is none.
        path: its folder, or the file.
        device: "cpu" or "cuda".
        sentence: as typed; may be blank.
        beam_size: hypotheses kept; 1 is greedy, or sampling where `sampling` says how.
        alpha: exponent of the length penalty.
        prefix: token ids that the translation has to begin with; ending in `</s>`, all of it.
        target: a translation to follow in place of a search.
        sampling: how tokens are drawn, None where the best are taken.
        src_lang, tgt_lang: chosen for a model of many languages, "" where nothing is; another
            model may know them by other codes, see `ui.work.languages.told`.
        kind: what is at `path`; where it is no checkpoint of this project, some pages have nothing
            to show (see `ui.frame.availability`), and nothing is steered.
    """

    checkpoint: str
    path: Path
    device: str
    sentence: str
    beam_size: int = 4
    alpha: float = 0.6
    prefix: tuple[int, ...] = ()
    target: str | None = None
    sampling: Sampling | None = None
    src_lang: str = ""
    tgt_lang: str = ""
    kind: Kind = "checkpoint"

    @property
    def examples(self) -> Examples:
        """Sentences that fit the checkpoint."""
        return examples_for(self.checkpoint)


def current_view() -> View:
    """What the sidebar says in this run. The frame has drawn it before any page asks."""
    view: View = st.session_state[_VIEW]
    return view


def is_blank(sentence: str) -> bool:
    """Whether nothing is left of a sentence once it is cleaned for the tokenizer."""
    return not clean(sentence)


def _parse_code(raw: str) -> str:
    if len(raw) > 60:
        raise ValueError("too long")
    return raw


SRC_LANG: Param[str] = Param("src_lang", _parse_code, "")


TGT_LANG: Param[str] = Param("tgt_lang", _parse_code, "")
