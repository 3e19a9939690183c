"""Compare's settings, and the two views that they describe.

A is the sidebar's view. B has another checkpoint or sentence, and drops settings that do not apply
to it: a prefix's token ids belong to one checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from transformer.models.catalogue import Entry, find
from transformer.trace.records import Trace
from ui.compare.exhibits import Compared
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.examples import examples_for
from ui.core.languages import Languages
from ui.core.url_state import Param
from ui.core.view import MAX_CHARACTERS, View, current_entries
from ui.export.download import source_of
from ui.frame.beside import PAIRINGS, Setup
from ui.frame.through_time import others_in_time
from ui.work.desk import load_for_visit, prepare
from ui.work.languages import languages_of, recorded_sentence
from ui.work.models import REFUSALS, fresh, load


@dataclass(frozen=True)
class CompareChoice(Choice):
    """URL parameters shared by all views.

    A blank second sentence is stored as a space, since the URL omits empty values. `scored` shows
    both full texts token by token, instead of one line each.
    """

    pairing: Param[str] = Param("pairing", url_state.one_of(PAIRINGS), "sentences")
    other: Param[str] = Param("other", str, "")
    second: Param[str] = Param(
        "second", url_state.text(MAX_CHARACTERS), "", lambda text: text or " ", "sentence"
    )
    follow: Param[bool] = url_state.switch("follow")
    scored: Param[bool] = url_state.switch("scored")


def can_follow(view: View) -> bool:
    """Return True if the view's model supports teacher forcing."""
    return view.kind == "checkpoint" or (
        view.kind == "huggingface" and "cross" in load(view.entry, view.device).kinds
    )


def compared(setup: Setup) -> Compared:
    """Return descriptions of both sides for captions and programs."""
    return Compared(setup.about, (source_of(setup.left), source_of(setup.right)))


def with_left(setup: Setup, left: Trace) -> Setup:
    """Return the setup with B following A's translation, if switched on and possible."""
    follows = url_state.get(CompareChoice.follow) and left.text.strip() and can_follow(setup.right)
    return setup.following(left.text) if follows else setup


def prepare_right(setup: Setup, left: Trace) -> None:
    """Compute B's trace early, ignoring errors, which B's controls report."""
    with suppress(*REFUSALS):
        load_for_visit(setup.right.entry, setup.right.device)
        prepare(setup.left, [with_left(setup, left).right.request])


def read_setup(view: View) -> Setup:
    """Read the setup from settings, with defaults for missing or unusable values."""
    entries = {entry.name: entry for entry in current_entries()}
    metrics = {name: entry.metrics for name, entry in entries.items() if entry.ok}
    others = others_in_time(view.entry) + readers(view.entry.whole, metrics)
    name, pairing = CompareChoice.read().other, CompareChoice.read().pairing
    if not url_state.stored(CompareChoice.pairing):
        alone = others[:1] == (view.checkpoint,)  # no other checkpoint reads this kind of text
        alike = second_sentence(view) == view.sentence
        if name or view.entry.updates is not None or (alike and not alone):
            pairing = "models"
        if view.entry.ref.edits:
            pairing = "edits"
    if pairing == "edits" and view.entry.ref.edits:
        return Setup(pairing, view.original, view, others)
    if pairing == "sentences" and view.kind != "archive":
        return Setup(pairing, view, replace(view, sentence=second_sentence(view)), others)
    refused, entry = "", find(entries, name)
    if entry is None or not entry.ok:
        if name:
            refused = "cannot be used" if name in entries else "is not here"
        entry = find(entries, others[0])
        assert entry is not None
    elif name not in others:  # another checkpoint's training snapshot, from a link
        others = (name, *others)
    return Setup("models", view, beside(view, entry), others, refused)


def beside(view: View, entry: Entry) -> View:
    """Return another model's view with the settings that it supports."""
    languages = languages_of(entry, view.device) if view.src_lang or view.tgt_lang else Languages()
    other = replace(view, entry=fresh(entry), prefix=(), languages=languages)
    if entry.kind == "archive":
        sentence = recorded_sentence(entry) or ""
        return replace(
            other, device="cpu", sentence=sentence, beam_size=1, target=None, sampling=None
        )
    if view.kind == "archive":
        return replace(other, target=None)
    return other if entry.kind == "checkpoint" else replace(other, target=None, sampling=None)


def readers(checkpoint: str, usable: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return usable checkpoints, the most relevant for a comparison first.

    Checkpoints that read the same language come first, led by equal languages in the name, then by
    an equal first word; then the checkpoint itself; then other languages.

    Args: usable: metrics.json by name.
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


def second_sentence(view: View) -> str:
    """Return B's sentence: the stored sentence, the example's counterpart, or A's sentence."""
    if url_state.stored(CompareChoice.second):
        return url_state.get(CompareChoice.second).strip()
    example = view.examples.like(view.sentence)
    return example.beside if example is not None and example.beside else view.sentence
