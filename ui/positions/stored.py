"""The section of the Positions page on a stored table, compared with the formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from figures.markdown import code
from figures.position_exhibits import stored_exhibit
from transformer.model import Transformer
from transformer.positions import sinusoids
from transformer.trace import position_vectors
from transformer.types import Floats
from ui.core import url_state
from ui.core.layout import section
from ui.core.view import View
from ui.core.widgets import choose_one
from ui.export.download import download_button, source_of
from ui.export.programs import about_model, header
from ui.positions.sections import PositionsChoice, draw_positions


def draw_stored(view: View, model: Transformer) -> None:
    """Draw the table and its difference from the formula."""
    tables, note = position_vectors.tables_of(model), position_vectors.stored_note(model)
    place = section(
        "The table that this model adds",
        f"The formula's sinusoids are computed; the checkpoint {code(view.checkpoint)} keeps its "
        "positions as numbers, and every page computes with these.\n\n"
        f"**{note}**\n\nThe lower picture has a scale of its own.",
    )
    side = choose_one("Table", PositionsChoice.side, list(tables), place)
    rows = tables[side][: url_state.get(PositionsChoice.length)]
    exact: Floats = sinusoids(model.config, len(rows)).numpy()
    apart = rows - exact
    most = float(np.abs(apart).max())
    stack = side.lower()
    draw_positions(place, rows, "stored", f"The {stack}'s stored table, {len(rows)} positions.")
    place.caption(f"Stored less formula: at most {most:.1e} in these {len(rows)} positions")
    if most:
        alt = f"The {stack}'s stored table less the formula, by up to {most:.1e}."
        draw_positions(place, apart, "stored_apart", alt, limit=most)
    with place:
        download_button(
            lambda: replace(
                stored_exhibit(rows, exact, side, note, header(source_of(view))),
                facts=about_model(view.checkpoint),
            ),
            key="stored_take", name="positions-stored", n_numbers=3 * rows.size,
        )  # fmt: skip
