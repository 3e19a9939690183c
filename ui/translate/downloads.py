"""The download of the Translate page."""

from __future__ import annotations

from transformer.trace.records import Trace
from ui.components.player import PlayerPlace
from ui.core.view import View
from ui.export.download import download_button, source_of, trace_for
from ui.translate.exhibits import player_exhibit, stem


def offer(view: View, trace: Trace, place: PlayerPlace, *, words: bool) -> None:
    """Draw the download button for the player's current picture."""
    n_steps = len(trace.predicted_tokens)
    download_button(
        lambda: player_exhibit(trace_for(view), place, source_of(view), words=words),
        key="player_figure",
        name=stem(place, words=words),
        n_numbers=n_steps * (len(trace.src_tokens) + n_steps + 4),
    )
