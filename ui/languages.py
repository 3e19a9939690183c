"""Languages of models that know many: what the sidebar offers, and what the model is told.

Models of the `transformers` library take a source and a target language. Marian models of several
target languages take a tag in front of the sentence (`>>deu<<`), which may also be typed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import streamlit as st
import torch

from transformer.checkpoint import CheckpointError, read_small
from transformer.opening import Kind, mark_of
from transformer.table_tokenizer import split_tag, tags_among
from transformer.tokenizer import clean
from transformer.tokenizer_files import TABLE_FILE
from transformer.untrusted import is_there
from ui import state
from ui.bound import fill
from ui.decoding import restart
from ui.language_names import label_of, name_of
from ui.models import tracer
from ui.state import Param
from ui.steering import drop_steering
from ui.text import code, plain

#: Chosen in place of a tag: the sentence goes as it is typed.
NONE = "none"
#: Taken in this order where neither a link nor the model says which.
_SOURCES, _TARGETS = ("English",), ("German", "French", "English")


def _parse_code(raw: str) -> str:
    if len(raw) > 60:
        raise ValueError("too long")
    return raw


SRC_LANG: Param[str] = Param("src_lang", _parse_code, "")
TGT_LANG: Param[str] = Param("tgt_lang", _parse_code, "")


@dataclass(frozen=True)
class Offered:
    """The languages of a model; empty where it is not told any.

    Attributes:
        sources, targets: their codes, by name.
        source, target: the codes where nobody says, "" where there is no choice.
        tagged: the target is said by a tag in front of the sentence.
    """

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    tagged: bool = False


def offered(path: Path, device: str, kind: Kind) -> Offered:
    """What a model can be told; a model of the `transformers` library is loaded for that."""
    if kind == "checkpoint":
        tags = _tags(str(path), mark_of(path))
        return Offered((), tags, "", _first(tags, _TARGETS), tagged=bool(tags))
    if kind != "huggingface":
        return Offered()
    from transformer.huggingface import HuggingFaceModel

    try:
        model = tracer(path, device)
    except (CheckpointError, MemoryError, torch.OutOfMemoryError):
        return Offered()
    if not isinstance(model, HuggingFaceModel) or not model.languages:
        return Offered()
    codes = tuple(sorted(model.languages, key=label_of))
    source, target = model.spoken()
    source = source or _first(codes, _SOURCES)
    return Offered(codes, codes if target else (), source, target or "")


def told(
    path: Path, device: str, kind: Kind, sentence: str, source: str, target: str
) -> tuple[str, str | None, str | None]:
    """The sentence and the languages that a model is given where these are chosen.

    Another model may call a language otherwise (`de`, `deu_Latn`); what it lacks is its default.
    Needs no session.
    """
    if not (source or target):
        return sentence, None, None
    found = offered(path, device, kind)
    chosen = _nearest(found.targets, target) or found.target
    if found.tagged:
        if target == NONE or not clean(sentence) or typed_tag(sentence):
            return sentence, None, None
        return f">>{chosen}<< {sentence}", None, None
    return sentence, _nearest(found.sources, source) or found.source or None, chosen or None


def typed_tag(sentence: str) -> str:
    """The tag that a sentence says itself, "" for none."""
    return split_tag(clean(sentence))[0]


def draw_languages(found: Offered, sentence: str) -> None:
    """Draw what can be chosen, see that the store says something that the model knows."""
    for param, codes, default, label in (
        (SRC_LANG, found.sources, found.source, "Source language"),
        (TGT_LANG, found.targets, found.target, "Target language"),
    ):
        if codes:
            _settle(param, codes, default, found.tagged)
            state.show(param)
            _draw(param, codes, label, typed_tag(sentence) if found.tagged else "", found.tagged)


def _settle(param: Param[str], codes: Sequence[str], default: str, tagged: bool) -> None:
    asked = state.get(param)
    if tagged and asked == NONE:
        return
    near = _nearest(codes, asked)
    if asked not in ("", NONE) and not near:
        st.toast(
            f"The language {code(asked)} is not one of this model's; this is "
            f"{plain(label_of(default))}.",
            icon=":material/translate:",
        )
    state.put(param, near or default)


def _draw(param: Param[str], codes: Sequence[str], label: str, typed: str, tagged: bool) -> None:
    key = f"{param.name}_box"
    fill(key, state.get(param))

    def store() -> None:
        state.put(param, st.session_state[key])
        drop_steering()
        restart()

    if tagged:
        about = (
            "This model translates into several languages. A tag in front of the sentence, one "
            "token, says into which; you may as well type it yourself."
        )
    elif param is SRC_LANG:
        about = "This model reads several languages. A token beside the sentence says which it is."
    else:
        about = (
            "This model writes several languages. The decoder is given the token of this one "
            "before it writes anything."
        )
    st.selectbox(
        label, [*([NONE] if tagged else []), *codes], key=key, on_change=store, help=about,
        disabled=bool(typed), format_func=_shown,
    )  # fmt: skip
    if typed:
        st.caption(f"The sentence says it itself: {code(typed)}.")


def _shown(choice: str) -> str:
    return "No tag: as typed" if choice == NONE else label_of(choice)


def _nearest(codes: Sequence[str], asked: str) -> str:
    """The code asked for, or the one of the same language; "" where there is neither."""
    if not asked or asked in codes:
        return asked
    name = name_of(asked)
    return next((each for each in codes if name_of(each) == name != asked), "")


def _first(codes: Sequence[str], names: Sequence[str]) -> str:
    """The code of the first of these languages, else the first code."""
    found = (each for name in names for each in codes if name_of(each) == name)
    return next(iter((*found, *codes, "")))


@lru_cache(maxsize=32)
def _tags(path: str, mark: str) -> tuple[str, ...]:
    """The languages that a checkpoint's vocabulary has tags for, by name."""
    table = Path(path) / TABLE_FILE
    if not is_there(table):
        return ()
    try:
        pieces = json.loads(read_small(table))
    except ValueError:  # also a `CheckpointError`; the page says it when the model is loaded
        return ()
    named = tags_among(pieces) if isinstance(pieces, list) else ()
    return tuple(sorted(named, key=label_of))
