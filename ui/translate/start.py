"""Where a player opens, and where it stands: in the session's store, and so in the link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transformer.trace.records import Trace
from ui.components.player import PlayerPlace
from ui.core import url_state
from ui.core.examples import Example


@dataclass(frozen=True)
class Start:
    """Where the player was opened: in which trace, at which place, and how often before."""

    trace: str
    place: PlayerPlace
    nonce: int


def remember(place: PlayerPlace) -> None:
    """Keep where the player stands, for the URL and for the way back from another page."""
    url_state.put(url_state.STEP, place.step)
    url_state.put(url_state.LAYER, place.layer)
    url_state.put(url_state.HEAD, place.head)


def telling_step(trace: Trace, example: Example | None) -> int:
    """The step, from 1, that looks most at the word an example is about; the first without one."""
    if example is None or not example.watch:
        return 1
    watched = [
        position
        for position, token in enumerate(trace.src_tokens)
        if token.lstrip("▁").lower() == example.watch
    ]
    if not watched:
        return 1
    looks = trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1)
    return int(np.argmax(looks)) + 1
