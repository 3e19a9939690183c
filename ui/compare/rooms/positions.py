"""The position vectors that each model adds, and their difference."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit, Panel, file_stem
from figures.markdown import plain
from transformer.measures.compare import difference
from transformer.trace import position_vectors
from transformer.trace.embeddings import Side as TextSide
from transformer.types import Floats
from ui.compare.choice import Setup
from ui.compare.sides import CompareRoom, Download, Pair, who_is_who
from ui.core import url_state
from ui.core.glossary import term
from ui.core.side import Side
from ui.core.view import View
from ui.core.widgets import bound
from ui.export.programs import roots_lines
from ui.positions.own import OwnPositions, draw_table, own_positions
from ui.positions.sections import LENGTH, SIDE
from ui.work.cache import get_translator
from ui.work.models import translator

_STACKS: dict[str, TextSide] = {"Encoder": "source", "Decoder": "translation"}


def _draw(pair: Pair) -> Download | None:
    """Both tables, and below them their difference where they have the same size."""
    length, which = pair.controls.columns([3, 2], gap="large", vertical_alignment="bottom")
    n = length.slider("Positions", 8, 512, help=term("positional encoding"), **bound(LENGTH))
    which.segmented_control(
        "Stack", list(_STACKS), required=True, label_visibility="collapsed", **bound(SIDE)
    )
    stack = url_state.get(SIDE)
    found = {
        side.letter: own_positions(get_translator(side.view), _STACKS[stack], n)
        for side in pair.shown
    }

    def table(side: Side) -> None:
        own = found[side.letter]
        st.markdown(f"{side.lead}{plain(own.about)}")
        count, width = own.table.shape
        draw_table(
            st.container(), own.table, side.key("positions"),
            f"{side.letter}: what is added at {count} positions in {width} dimensions.",
            height=330, trained=position_vectors.trained_positions(side.view.entry.metrics),
        )  # fmt: skip

    pair.rows(table)
    pair.links()
    if len(found) == 2:
        _draw_difference(found["A"], found["B"])
    if not found:
        return None
    views = {side.letter: side.view for side in pair.shown}
    return Download(
        partial(positions_exhibit, pair.setup, views, stack, n), _stem(stack),
        2 * sum(own.table.size for own in found.values()),
    )  # fmt: skip


def _lacks(setup: Setup, side: Side) -> str | None:
    if side.view.kind == "checkpoint":
        return None
    return (
        f"{side.view.checkpoint} is no checkpoint of this project, and only those give out the "
        "vectors of their positions."
    )


def _draw_difference(left: OwnPositions, right: OwnPositions) -> None:
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
    draw_table(
        st.container(), apart, "positions_difference",
        f"What A adds less what B adds, by up to {most:.3g}.", height=330, limit=most,
    )  # fmt: skip


def why_not_subtracted(left: OwnPositions, right: OwnPositions) -> str:
    """Say why two tables cannot be subtracted, in one sentence; "" if they can."""
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


def positions_exhibit(setup: Setup, views: dict[str, View], stack: str, n: int) -> Exhibit:
    """Return the tables and their difference as a figure. Needs no session."""
    found = {
        letter: own_positions(translator(view), _STACKS[stack], n) for letter, view in views.items()
    }
    parts = [_panel(f"{letter}: {own.about}", own.table) for letter, own in found.items()]
    arrays = {f"positions_{letter.lower()}": own.table for letter, own in found.items()}
    program = roots_lines("from transformer.translator import Translator")
    name = "src_positions" if stack == "Encoder" else "tgt_positions"
    for letter, own in found.items():
        view = views[letter]
        program += (
            f"model = Translator.load(path_of({view.checkpoint!r}), device={view.device!r}).model\n"
            f"positions_{letter.lower()} = model.{name}(0, {len(own.table)})"
            ".detach().float().cpu().numpy()\n"
        )
    if len(found) == 2 and not why_not_subtracted(found["A"], found["B"]):
        apart = difference(found["A"].table, found["B"].table)
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


def _panel(title: str, table: Floats, quantity: str = "") -> Panel:
    n, d = table.shape
    return Panel(
        title, table, tuple(map(str, range(n))), tuple(map(str, range(d))), "position",
        "dimension", "diverging", quantity,
    )  # fmt: skip


ROOM = CompareRoom("positions", _draw, page="positions", params=(LENGTH, SIDE), lacks=_lacks)
