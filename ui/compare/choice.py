"""The settings of Compare, and the two views that they describe.

A is the view of the sidebar. B differs from it in the checkpoint or in the sentence, and drops what
would be meaningless there: the token ids of a prefix belong to one checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import streamlit as st

from transformer.catalogue import Entry, find
from transformer.errors import CheckpointError
from transformer.trace.records import Trace
from ui.compare.exhibits import Compared
from ui.core import url_state
from ui.core.examples import examples_for, shared_example
from ui.core.languages import Languages
from ui.core.url_state import Param
from ui.core.view import MAX_CHARACTERS, View, current_entries
from ui.export.download import source_of
from ui.frame.through_time import others_in_time
from ui.frame.twice import PAIRINGS, Setup, Twice
from ui.work.cache import Plan
from ui.work.languages import languages_of
from ui.work.models import fresh, recorded_sentence, tracer

_LEFT = "compare_left"
_OPENED = "compare_opened"

PAIRING: Param[str] = Param("pairing", url_state.one_of(PAIRINGS), "models")
OTHER: Param[str] = Param("other", str, "")
#: A blank sentence is kept as a space, since the URL leaves out what is empty.
SECOND: Param[str] = Param("second", url_state.text(MAX_CHARACTERS), "", lambda text: text or " ")
FOLLOW: Param[bool] = url_state.switch("follow")
#: Whether both texts are shown whole, token by token, instead of in one line each.
SCORED: Param[bool] = url_state.switch("scored")
#: Settings that all views share; each view adds its own.
PARAMS: tuple[Param[Any], ...] = (PAIRING, OTHER, SECOND, FOLLOW, SCORED)


def can_follow(view: View) -> bool:
    """Return True if the view's model can read a given translation."""
    return view.kind == "checkpoint" or (
        view.kind == "huggingface" and "cross" in tracer(view).kinds
    )


def compared(setup: Setup) -> Compared:
    """Return both sides as captions and programs name them."""
    return Compared(setup.about, (source_of(setup.left), source_of(setup.right)))


def with_left(setup: Setup, left: Trace) -> Setup:
    """Return the setup with B following A's translation, if that is on and possible."""
    follows = url_state.get(FOLLOW) and left.text.strip() and can_follow(setup.right)
    return setup.following(left.text) if follows else setup


def opening(setup: Setup, left: Trace) -> Plan:
    """Make B's trace in the job of A's; what keeps it from being made is said with B's controls."""
    with suppress(CheckpointError):
        tracer(setup.right)
        yield with_left(setup, left).right.request


def read_setup(view: View) -> Setup:
    """Read the setup from the settings, with defaults for missing or unusable ones."""
    if st.session_state.get(_LEFT, view.sentence) != view.sentence and not url_state.arrived(
        SECOND
    ):
        url_state.forget(SECOND)  # it belonged to another sentence
    st.session_state[_LEFT] = view.sentence
    found = {entry.name: entry for entry in current_entries()}
    usable = [name for name, entry in found.items() if entry.ok]
    others = others_in_time(view.entry) + readers(
        view.entry.whole, {name: found[name].metrics for name in usable}
    )
    pairing = url_state.get(PAIRING)
    if not url_state.stored(PAIRING) and others[:1] == (view.checkpoint,):
        pairing = "sentences"  # no other checkpoint reads this kind of text
    if pairing == "sentences" and view.kind != "archive":
        return Setup(pairing, view, replace(view, sentence=second_sentence(view)), others)
    asked, refused = url_state.get(OTHER), ""
    entry = _usable(found, asked)
    if entry is None:
        if asked:
            refused = "cannot be used" if asked in found else "is not here"
        entry = _usable(found, others[0])
        assert entry is not None
    elif asked not in others:  # a moment of another checkpoint's training, by a link
        others = (asked, *others)
    return Setup("models", view, beside(view, entry), others, refused)


def _usable(found: Mapping[str, Entry], name: str) -> Entry | None:
    """Return the usable checkpoint or snapshot of this name, None if there is none."""
    entry = find(found, name)
    return entry if entry is not None and entry.ok else None


def beside(view: View, entry: Entry) -> View:
    """Return the view of another model, keeping only the settings that it supports."""
    known = languages_of(entry, view.device) if view.src_lang or view.tgt_lang else Languages()
    other = replace(view, entry=fresh(entry), prefix=(), languages=known)
    if entry.kind == "archive":
        sentence = recorded_sentence(entry) or ""
        return replace(
            other, device="cpu", sentence=sentence, beam_size=1, target=None, sampling=None
        )
    if view.kind == "archive":
        return replace(other, target=None)
    return other if entry.kind == "checkpoint" else replace(other, target=None, sampling=None)


def readers(checkpoint: str, usable: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the usable checkpoints, those that read the same kind of text first.

    Other checkpoints that read the same language come first, of these those of the same languages
    by their names, then those whose names begin alike; then the checkpoint itself, then the rest.

    Args: usable: what metrics.json of each says, by name.
    """
    language = examples_for(checkpoint, usable.get(checkpoint)).language

    family, *languages = checkpoint.split("-")

    def rank(name: str) -> tuple[int, bool, bool, str]:
        if name == checkpoint:
            return 1, False, False, name
        if examples_for(name, usable[name]).language != language:
            return 2, False, False, name
        its_family, *its_languages = name.split("-")
        return 0, its_languages != languages, its_family != family, name

    return tuple(sorted(usable, key=rank))


def better_known(setup: Setup) -> str:
    """Return an example that both models know in place of one that they do not, else "".

    Models of the same kind of text know the same sentences.
    """
    mine, other = setup.left.examples, setup.right.examples
    if setup.pairing != "models" or "archive" in (setup.left.kind, setup.right.kind):
        return ""
    if mine.kind == other.kind or other.find(setup.left.sentence) is not None:
        return ""
    return shared_example(mine, other)


def second_sentence(view: View) -> str:
    """Return B's sentence: the stored one, else the example's counterpart, else A's own."""
    if url_state.stored(SECOND):
        return url_state.get(SECOND).strip()
    found = view.examples.find(view.sentence)
    return found.beside if found is not None and found.beside else view.sentence


def begin(shown: Sequence[Param[Any]], sections: Sequence[Twice], setup: Setup) -> None:
    """Open views anew if a link or another page came before; forget tokens of other sentences.

    Called by a run of the whole page; see `opened`.

    Args:
        shown: all settings in the link.
    """
    if url_state.entered() or url_state.arrived(*shown):
        st.session_state.pop(_OPENED, None)
    tokens = [param for each in sections for param in each.tokens]
    url_state.forget_stale("compare_read", [view.request for view in setup.views], *tokens)


def opened(topic: str) -> bool:
    """Return True in the first run that shows a view; what moves by itself then starts anew."""
    before = st.session_state.get(_OPENED)
    st.session_state[_OPENED] = topic
    return bool(before != topic)
