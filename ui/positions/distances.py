"""The section of the Positions page on relative positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from figures.markdown import code
from figures.position_exhibits import distances_exhibit
from figures.positions import distance_heatmap
from transformer.model import Transformer
from transformer.trace.position_vectors import distance_numbers
from ui.core.layout import draw_plot, section
from ui.core.theme import current_theme
from ui.core.view import View
from ui.core.widgets import choose_one
from ui.export.download import download_button, source_of
from ui.export.programs import about_model, header
from ui.positions.sections import PositionsChoice
from ui.work.pictures import drawn

#: Distances drawn to both sides.
_REACH = 40


def draw_distances(view: View, model: Transformer) -> None:
    """Draw what each head adds for each distance."""
    place = section(
        "Distances instead of positions",
        f"In {code(view.checkpoint)} a token's place is nowhere in its vector. Each head adds a "
        "number to a logit, by how far the key stands before (left) or after (right) the query; "
        "far distances share one. All layers of a stack use the same numbers, which began at 0 "
        "(as in T5, Raffel et al. 2020). **A warm colour is a distance that the head prefers**, "
        "blue is one that it avoids.",
    )
    side = choose_one("Stack", PositionsChoice.side, ["Encoder", "Decoder"], place)
    ahead = _REACH if side == "Encoder" else 0
    distances = np.arange(-_REACH, ahead + 1)
    numbers = distance_numbers(model, distances)[side]
    n_heads = len(numbers)
    draw_plot(
        place, drawn(distance_heatmap, numbers, distances.tolist(), current_theme()), "distances",
        f"What each of {n_heads} heads of the {side.lower()} adds for distances of up to "
        f"{_REACH} tokens.",
    )  # fmt: skip
    with place:
        download_button(
            lambda: replace(
                distances_exhibit(numbers, distances.tolist(), side, header(source_of(view))),
                facts=about_model(view.checkpoint),
            ),
            key="distances_take", name="positions-relative", n_numbers=numbers.size,
        )  # fmt: skip
