"""What each model adds for a token's place: the vectors of its positions, and their difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit, Panel, file_stem
from figures.markdown import plain
from figures.positions import encoding_heatmap
from transformer.checkpoint.position_tables import about_table
from transformer.config import ModelConfig
from transformer.measures.compare import difference
from transformer.positions import TablePositions
from transformer.stored_positions import StoredPositions
from transformer.trace import position_vectors
from transformer.trace.embeddings import Side
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats
from ui.compare.choice import Setup
from ui.compare.sides import LETTERS, Bar, link_page, page_of, rows, view_of, who_is_who
from ui.core import url_state
from ui.core.glossary import term
from ui.core.layout import draw_plot
from ui.core.theme import current_theme
from ui.core.view import View
from ui.core.widgets import bound
from ui.export.download import download_button
from ui.export.programs import roots_lines
from ui.positions.sections import LENGTH, SIDE
from ui.work.cache import get_translator
from ui.work.models import translator

PARAMS = (LENGTH, SIDE)

_SIDES: dict[str, Side] = {"Encoder": "source", "Decoder": "translation"}


@dataclass(frozen=True, eq=False)
class Places:
    """The positions of one side of one model.

    Attributes:
        table: [n, d_model], what is added to the embeddings of positions 0, 1, ...; shorter than
            asked for where a learned or stored table ends.
        about: what they are, in a few words.
    """

    table: Floats
    about: str


def places_of(model: Translator, side: Side, n: int) -> Places:
    """The first `n` positions as the model's own module gives them."""
    module = model.model.src_positions if side == "source" else model.model.tgt_positions
    if isinstance(module, TablePositions):
        n = min(n, module.table.size(0))
    table: Floats = module(0, n).detach().float().cpu().numpy()
    told = about(model.config)
    if isinstance(module, StoredPositions):
        told += f": {about_table(module.table, model.config)}"
    return Places(table, told)


def about(config: ModelConfig) -> str:
    """What kind of positions a model has."""
    if config.positions != "sinusoidal":
        return f"{config.positions}, a table of {config.max_positions:,} × {config.d_model}"
    shifted = "" if not config.position_offset else f", counted from {config.position_offset}"
    ending = "" if config.position_frequencies == "paper" else ", slower to the end"
    return f"sinusoids, {config.position_layout}, {config.d_model} dimensions{shifted}{ending}"


def draw_positions(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """Both tables, and below them their difference where they have the same size."""
    length, which = bar.controls.columns([3, 2], gap="large", vertical_alignment="bottom")
    n = length.slider("Positions", 8, 512, help=term("positional encoding"), **bound(LENGTH))
    which.segmented_control(
        "Stack", list(_SIDES), required=True, label_visibility="collapsed", **bound(SIDE)
    )
    side_of_model = url_state.get(SIDE)
    found: dict[int, Places] = {}
    for side, column in enumerate(rows()):
        view = view_of(setup, side)
        with column.container():
            if view.kind != "checkpoint":
                st.info(
                    f"**{LETTERS[side]}** · {plain(view.checkpoint)} is no checkpoint of this "
                    "project, and only those give out the vectors of their positions.",
                    icon=page_of("positions").icon,
                )
                continue
            found[side] = places_of(get_translator(view), _SIDES[side_of_model], n)
            _draw_table(setup, side, found[side])
    if len(found) == 2:
        _draw_difference(found[0], found[1])
    if found:
        with bar.aside:
            make = partial(positions_exhibit, setup, tuple(found), side_of_model, n)
            count = sum(each.table.size for each in found.values())
            download_button(make, key="compare", name=_stem(side_of_model), n_numbers=2 * count)


def _draw_table(setup: Setup, side: int, places: Places) -> None:
    letter = LETTERS[side]
    trained = position_vectors.trained_positions(view_of(setup, side).entry.metrics)
    st.markdown(f"**{letter}** · {plain(places.about)}")
    figure = encoding_heatmap(places.table, current_theme(), trained=trained)
    figure.update_layout(height=330)
    rows_, columns = places.table.shape
    draw_plot(
        st.container(), figure, f"compare_positions_{side}",
        f"{letter}: what is added at {rows_} positions in {columns} dimensions.",
    )  # fmt: skip
    link_page(setup, side, "positions")


def _draw_difference(left: Places, right: Places) -> None:
    why = why_not_subtracted(left, right)
    if why:
        st.info(why, icon=":material/join_inner:")
        return
    apart = difference(left.table, right.table)
    most = float(np.abs(apart).max())
    if most == 0:
        st.markdown("**A − B:** both add exactly the same at every position.")
        return
    st.markdown(f"**A − B:** they differ by up to {most:.3g}.")
    figure = encoding_heatmap(apart, current_theme(), limit=most)
    figure.update_layout(height=330)
    draw_plot(
        st.container(), figure, "compare_positions_difference",
        f"What A adds less what B adds, by up to {most:.3g}.",
    )  # fmt: skip


def why_not_subtracted(left: Places, right: Places) -> str:
    """Why two tables have no difference, one sentence; "" where they have one."""
    if left.table.shape[1] != right.table.shape[1]:
        widths = f"{left.table.shape[1]} and {right.table.shape[1]}"
        return f"Vectors of {widths} numbers have no difference."
    if len(left.table) != len(right.table):
        shorter = "A" if len(left.table) < len(right.table) else "B"
        ends = min(len(left.table), len(right.table))
        return f"{shorter}’s table ends after {ends} positions; show no more, and they compare."
    return ""


def _stem(stack: str) -> str:
    return file_stem("compare", "positions", stack)


def positions_exhibit(setup: Setup, sides: tuple[int, ...], stack: str, n: int) -> Exhibit:
    """The tables and their difference. Needs no session."""
    found = {
        side: places_of(_model(view_of(setup, side)), _SIDES[stack], n) for side in sides
    }  # fmt: skip
    parts = [_panel(f"{LETTERS[side]}: {each.about}", each.table) for side, each in found.items()]
    arrays = {f"positions_{LETTERS[side].lower()}": each.table for side, each in found.items()}
    program = roots_lines("from transformer.translator import Translator\n")
    name = "src_positions" if stack == "Encoder" else "tgt_positions"
    for side, each in found.items():
        view, letter = view_of(setup, side), LETTERS[side].lower()
        program += (
            f"model = Translator.load(path_of({view.checkpoint!r}), device={view.device!r}).model\n"
            f"positions_{letter} = model.{name}(0, {len(each.table)})"
            ".detach().float().cpu().numpy()\n"
        )
    if len(found) == 2 and not why_not_subtracted(found[0], found[1]):
        apart = difference(found[0].table, found[1].table)
        parts.append(_panel("A − B", apart, "difference"))
        arrays["difference"] = apart
        program += "difference = positions_a - positions_b\n"
    return Exhibit(
        name=_stem(stack),
        title=f"What the {stack.lower()}s add for positions 0 to {n - 1}",
        caption=f"{who_is_who(setup)} One row is one position, one column a dimension "
        "(section 3.5).",
        parts=tuple(parts),
        arrays=arrays,
        snippet=program,
        columns=len(parts),
    )


def _model(view: View) -> Translator:
    return translator(view)


def _panel(title: str, table: Floats, quantity: str = "") -> Panel:
    n, d = table.shape
    return Panel(
        title, table, tuple(map(str, range(n))), tuple(map(str, range(d))), "position",
        "dimension", "diverging", quantity,
    )  # fmt: skip
