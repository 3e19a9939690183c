"""The Family page's choices and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformer.evaluation.alignment import ALIGNMENT, best_aligner
from transformer.models.catalogue import Entry
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.examples import data_of_training
from ui.core.url_state import Param
from ui.core.view import View

#: Views of the page, named in the menu.
PART: Param[str] = Param("part", url_state.one_of(("expects", "stacks", "changes")), "expects")
#: Choices for the number of tokens to continue by.
LENGTHS = (0, 5, 10, 20)


@dataclass(frozen=True)
class ExpectsChoice(Choice):
    """The URL parameters of GPT and BERT."""

    #: name of the model; "" is the page's default
    member: Param[str] = Param("member", url_state.text(100), "")
    place: Param[int | None] = url_state.position(
        "place", of="member checkpoint"
    )  # a place in the text
    #: number of tokens to add
    more: Param[int] = Param("more", url_state.whole(0, max(LENGTHS)), 0)
    #: random seed for drawing; 0 takes the most probable tokens
    seed: Param[int] = Param("seed", url_state.whole(0, 9_999), 0)


@dataclass(frozen=True)
class StacksChoice(Choice):
    """The URL parameters of "One stack or two": layer and head of each, by default the aligner."""

    layer_two: Param[int | None] = url_state.position("layer_two")
    layer_one: Param[int | None] = url_state.position("layer_one")
    head_two: Param[int | None] = url_state.position("head_two")
    head_one: Param[int | None] = url_state.position("head_one")


def members(entries: Sequence[Entry], *tasks: str) -> list[Entry]:
    """Return the usable single-stack models for these tasks, in the tasks' order."""
    matches = [entry for entry in entries if entry.ok and entry.stack and entry.stack.task in tasks]
    return sorted(matches, key=lambda entry: tasks.index(entry.stack.task if entry.stack else ""))


def pair_of(entries: Sequence[Entry]) -> tuple[Entry, Entry] | None:
    """Return a two-stack and a single-stack translator trained on the same text."""
    for one in members(entries, "translate"):
        data = _data(one.metrics)
        for two in entries:
            if two.ok and two.kind == "checkpoint" and data and _data(two.metrics) == data:
                return two, one
    return None


def _data(metrics: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a model's training corpora and direction; () if unknown."""
    data = data_of_training(metrics)
    return tuple(str(data.get(name)) for name in ("corpora", "src", "tgt")) if data else ()


def view_of(view: View, entry: Entry) -> View:
    """Return the view of the same sentence through another model, as it translates by default.

    A checkpoint shown through its training keeps the chosen moment.
    """
    now = view.entry if view.entry.whole == entry.name else entry
    return replace(view, entry=now, prefix=(), target=None, sampling=None)


def aligner_of(metrics: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Return `best_aligner` of a model; None if its heads, or the guess, were not measured."""
    try:
        return best_aligner(metrics[ALIGNMENT])
    except (TypeError, KeyError, ValueError, IndexError):
        return None
