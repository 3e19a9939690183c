"""Settings of the Translate page."""

from dataclasses import dataclass
from typing import NamedTuple

from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import VIEW, WHY, Param
from ui.core.view import View
from ui.translate.player import default_step


@dataclass(frozen=True)
class TranslateChoice(Choice):
    """URL settings besides the player's position."""

    view: Param[str] = VIEW
    why: Param[tuple[int, int] | None] = WHY
    all_parts: Param[bool] = url_state.switch("all_parts")
    sources: Param[bool] = url_state.switch("sources")  # source or prefix, below the player


class Pair(NamedTuple):
    """Token ids of two candidates at a step, counted from 0."""

    step: int
    one: int
    other: int


def pair_now(view: View, trace: Trace) -> Pair:
    """Return the stored candidates, by default the step's own token and the best alternative.

    The default step is the player's, or the least certain one if there is no word to watch.
    """
    step = view.step(len(trace.predicted_ids))
    if step is None:
        example = view.examples.like(view.sentence)
        watches = example is not None and example.watched(trace.src_tokens)
        step = default_step(trace, example) - 1 if watches else int(trace.log_probs.argmin())
    config, stored = view.entry.config, url_state.get(WHY)
    if stored and config and max(stored) < config.target_vocab_size and stored[0] != stored[1]:
        return Pair(step, *stored)
    own = trace.predicted_ids[step]
    return Pair(step, own, next(token for token in trace.top_ids[step].tolist() if token != own))
