"""The Family page's choices and models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformer.evaluation.alignment import ALIGNMENT, best_aligner
from transformer.models.catalogue import Entry
from ui.core import url_state
from ui.core.examples import data_of_training
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import Choice

#: The page's views, which the menu lists.
PART: Param[str] = Param("part", url_state.one_of(("expects", "stacks", "changes")), "expects")
#: Numbers of tokens by which a text can be continued.
LENGTHS = (0, 5, 10, 20)


@dataclass(frozen=True)
class ExpectsChoice(Choice):
    """The URL parameters of GPT and BERT."""

    member: Param[str] = Param("member", url_state.text(100), "")  # the model; "" for the default
    place: Param[int | None] = url_state.position("place", of="member checkpoint")  # in the text
    more: Param[int] = Param("more", url_state.whole(0, max(LENGTHS)), 10)  # tokens to add
    seed: Param[int] = Param("seed", url_state.whole(0, 9_999), 0)  # 0 for the likeliest tokens


@dataclass(frozen=True)
class StacksChoice(Choice):
    """The URL parameters of "One stack or two"; heads default to each model's best aligner."""

    layer_two: Param[int | None] = url_state.position("layer_two")
    layer_one: Param[int | None] = url_state.position("layer_one")
    head_two: Param[int | None] = url_state.position("head_two")
    head_one: Param[int | None] = url_state.position("head_one")


def members(entries: Sequence[Entry], *tasks: str) -> list[Entry]:
    """Return the usable single-stack models for these tasks, in the tasks' order."""
    return [
        entry for task in tasks for entry in entries
        if entry.ok and entry.stack and entry.stack.task == task
    ]  # fmt: skip


def pair_of(entries: Sequence[Entry]) -> tuple[Entry, Entry] | None:
    """Return a two-stack and a single-stack translator trained on the same text."""
    for one in members(entries, "translate"):
        data = _data(one.metrics)
        for two in entries:
            if two.ok and two.kind == "checkpoint" and data and _data(two.metrics) == data:
                return two, one
    return None


def _data(metrics: Mapping[str, Any]) -> tuple[object, ...]:
    data = data_of_training(metrics)
    return tuple(str(data.get(name)) for name in ("corpora", "src", "tgt")) if data else ()


def view_of(view: View, entry: Entry) -> View:
    """Return a view of the same sentence through another model with its default decoding.

    The view's own model keeps the chosen moment of its training.
    """
    now = view.entry if view.entry.whole == entry.name else entry
    return replace(view, entry=now, prefix=(), target=None, sampling=None)


def aligner_of(metrics: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Return a model's `best_aligner`, or None if its metrics do not hold the measurements."""
    try:
        return best_aligner(metrics[ALIGNMENT])
    except (TypeError, KeyError, ValueError, IndexError):
        return None
