"""The settings of Compare, and the two views that they describe.

A is the view of the sidebar. B differs from it in the checkpoint or in the sentence, and drops what
would be meaningless there: the token ids of a prefix belong to one checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from transformer.catalogue import Entry, find
from transformer.errors import CheckpointError
from transformer.measures.heads import Head
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats
from ui.attention.choice import AttentionSettings, read_choice
from ui.attention.maps import AttentionChoice
from ui.components.grid import Cell
from ui.core import url_state
from ui.core.examples import examples_for, shared_example
from ui.core.languages import Languages
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import MAX_CHARACTERS, View, current_entries
from ui.frame.through_time import others_in_time
from ui.work.cache import Plan
from ui.work.languages import languages_of
from ui.work.models import fresh, recorded_sentence, tracer

PAIRINGS = ("models", "sentences")
DISPLAYS = ("matrix", "difference", "grid", "differences", "lines")

#: The Attention page's display for each of these.
_WAYS = {
    "matrix": "matrix", "difference": "matrix", "grid": "grid", "differences": "grid",
    "lines": "heads",
}  # fmt: skip

_LEFT = "compare_left"
_OPENED = "compare_opened"


def _parse_cell(raw: str) -> str:
    return raw if raw in ("same", "mean") else str(url_state.whole(1, 99_999)(raw))


PAIRING: Param[str] = Param("pairing", url_state.one_of(PAIRINGS), "models")
OTHER: Param[str] = Param("other", str, "")
#: A blank sentence is kept as a space, since the URL leaves out what is empty.
SECOND: Param[str] = Param("second", url_state.text(MAX_CHARACTERS), "", lambda text: text or " ")
BESIDE: Param[str] = Param("beside", url_state.one_of(DISPLAYS), "matrix")
FOLLOW: Param[bool] = url_state.switch("follow")
#: Whether both texts are shown whole, token by token, instead of in one line each.
SCORED: Param[bool] = url_state.switch("scored")
#: Layer and head on the right: a number from 1, "mean", or "same" as on the left.
OTHER_LAYER: Param[str] = Param("other_layer", _parse_cell, "same")
OTHER_HEAD: Param[str] = Param("other_head", _parse_cell, "same")

#: Settings that sections share; each section adds its own.
PARAMS: tuple[Param[Any], ...] = (
    PAIRING, OTHER, SECOND, KIND, LAYER, HEAD, OTHER_LAYER, OTHER_HEAD, FOLLOW, SCORED,
)  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """Both sides of a comparison.

    Attributes:
        pairing: "models" or "sentences".
        left, right: the views of A, from the sidebar, and of B.
        others: names of the checkpoints that B can be.
        refused: why the requested checkpoint is not B, "" if it is.
        follow: whether B follows A's translation (teacher forcing).
    """

    pairing: str
    left: View
    right: View
    others: tuple[str, ...]
    refused: str = ""
    follow: bool = False

    @property
    def pairings(self) -> tuple[str, ...]:
        """The pairings on offer; a file of arrays holds one sentence only."""
        return PAIRINGS[:1] if self.left.kind == "archive" else PAIRINGS

    @property
    def names(self) -> tuple[str, str]:
        """The names of the sides in text: their checkpoints, or A and B."""
        if self.pairing == "models" and self.left.checkpoint != self.right.checkpoint:
            return self.left.checkpoint, self.right.checkpoint
        return "A", "B"

    def following(self, text: str) -> Setup:
        """Return this setup with B following a translation."""
        return replace(self, right=following(self.right, text), follow=True)


def following(view: View, text: str | None) -> View:
    """Return the view with its translation given instead of searched for."""
    return replace(view, target=text, prefix=(), sampling=None)


def can_follow(view: View) -> bool:
    """Whether the view's model can read a given translation."""
    return view.kind == "checkpoint" or (
        view.kind == "huggingface" and "cross" in tracer(view).kinds
    )


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


def begin(*params: Param[Any]) -> None:
    """Let every section open anew if the page was just opened or a link set one of these.

    Called by a run of the whole page; see `opened`.
    """
    if url_state.entered() or url_state.arrived(*params):
        st.session_state.pop(_OPENED, None)


def opened(topic: str) -> bool:
    """Whether this run is the first to show a section; what moves by itself then starts anew."""
    before = st.session_state.get(_OPENED)
    st.session_state[_OPENED] = topic
    return bool(before != topic)


def shared_kinds(left: Trace, right: Trace) -> tuple[AttentionKind, ...]:
    """The kinds of attention that both traces have."""
    return tuple(
        kind for kind in ATTENTION_KINDS
        if left.attention(kind).size and right.attention(kind).size
    )  # fmt: skip


def kind_now(kinds: Sequence[AttentionKind]) -> AttentionKind:
    """The kind to show: the chosen one if both have it, else cross-attention or the first."""
    best = [kind for kind in kinds if kind == url_state.get(KIND)]
    return next(iter([*best, *(kind for kind in kinds if kind == "cross"), *kinds]))


def choices_of(
    left: Trace, right: Trace, kind: AttentionKind, units: str
) -> tuple[AttentionChoice, AttentionChoice]:
    """Return the choice of each side, limited to what its model and sentence have."""
    place = url_state.get(LAYER), url_state.get(HEAD)
    layer, head = (
        same if raw == "same" else None if raw == "mean" else int(raw)
        for raw, same in zip(
            (url_state.get(OTHER_LAYER), url_state.get(OTHER_HEAD)), place, strict=True
        )
    )
    way = _WAYS[url_state.get(BESIDE)]
    one, two = (
        replace(
            read_choice(trace, kind, at, way), units=units, chosen=False, queries=(), keys=(),
        )
        for trace, at in ((left, place), (right, (layer, head)))
    )  # fmt: skip
    if url_state.get(AttentionSettings.heads) is None and _has(right.attention(kind), one.heads):
        two = replace(two, heads=one.heads)  # a legend switches heads on both sides
    return one, two


def _has(maps: Floats, heads: Sequence[Head]) -> bool:
    """Whether maps [L, H, n, m] have all of these heads."""
    return all(layer < maps.shape[0] and head < maps.shape[1] for layer, head in heads)


def choose_left(cell: Cell) -> None:
    """Store the map chosen in A; B follows unless it has a choice of its own."""
    layer, head = cell
    url_state.put(LAYER, None if layer is None else layer + 1)
    url_state.put(HEAD, None if head is None else head + 1)


def choose_right(cell: Cell) -> None:
    """Store the map chosen in B, apart from A's."""
    layer, head = cell
    url_state.put(OTHER_LAYER, "mean" if layer is None else str(layer + 1))
    url_state.put(OTHER_HEAD, "mean" if head is None else str(head + 1))


def join_cells() -> None:
    """Let B show A's layer and head."""
    url_state.forget(OTHER_LAYER, OTHER_HEAD)


def joined() -> bool:
    """Whether B shows A's layer and head."""
    return url_state.get(OTHER_LAYER) == url_state.get(OTHER_HEAD) == "same"
