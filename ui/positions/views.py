"""The sections of the Positions page about the encoding itself (section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import plain
from figures.positions import (
    clocks,
    cosines,
    curves,
    distance_heatmap,
    encoding_heatmap,
    product_by_offset,
    products,
)
from transformer.config import PositionLayout
from transformer.model import Transformer
from transformer.positions import pair_columns, sinusoids
from transformer.trace import position_vectors
from transformer.trace.position_vectors import distance_numbers
from transformer.types import Floats
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.layout import current_theme, draw_chart, draw_plot, section
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.export.download import download_below
from ui.positions import exhibits
from ui.work.desk import drawn


@dataclass(frozen=True)
class PositionsChoice(Choice):
    """The URL parameters of "The encoding" but width and layout, whose defaults are a model's."""

    length: Param[int] = Param("positions", url_state.whole(8, 512), 100)
    pos: Param[int] = Param("pos", url_state.whole(0, 100_000), 5)
    shift: Param[int] = Param("k", url_state.whole(-1_000, 1_000), 3)
    side: Param[str] = Param("side", url_state.one_of(("Encoder", "Decoder")), "Encoder")


_MOST_CURVES = 8
_STARTS, _OFFSETS = (0, 10, 40), 60


def dimensions_param(d_model: int, layout: PositionLayout) -> Param[list[int]]:
    """Return the setting of the dimensions drawn; sines of four pairs, fast to slow, by default."""
    columns = pair_columns(d_model, layout).numpy()
    picked = sorted({0, d_model // 16, d_model // 8, d_model // 4})

    def parse(raw: str) -> list[int]:
        one = url_state.whole(0, d_model - 1)
        return [] if raw == "none" else [one(part) for part in raw.split(".")][:_MOST_CURVES]

    def write(dimensions: Iterable[int]) -> str:
        return ".".join(map(str, dimensions)) or "none"

    return Param("dims", parse, [int(columns[pair, 0]) for pair in picked], write)


def draw_positions(
    place: DeltaGenerator,
    table: Floats,
    key: str,
    alt: str,
    *,
    height: int = 300,
    trained: int | None = None,
    limit: float | None = None,
) -> None:
    """Draw a table of positions, [n, d_model].

    Args:
        key: of the chart.  alt: for screen readers.
        trained: positions of the longest training sentence, marked.
        limit: where the scale ends, see `figures.positions.encoding_heatmap`.
    """
    look: dict[str, Any] = {"height": height, "trained": trained, "limit": limit}
    draw_plot(place, drawn(encoding_heatmap, table, current_theme(), **look), key, alt)


def draw_table(d_model: int, n: int, layout: PositionLayout, trained: int | None) -> None:
    """Draw the encoding as a picture, and single dimensions of it as curves."""
    place = section(
        "Every position has its own pattern",
        "By itself, attention treats a sentence as an unordered set of tokens. So a vector that "
        "depends only on the position is added to each embedding. "
        "One row of the picture is one position, one column a dimension. "
        + (
            "*Interleaved*, as in the paper: sine and cosine of a pair are side by side."
            if layout == "interleaved"
            else "*Concatenated*, as in several implementations: all sines come before all "
            "cosines. The numbers are the same, in a different order."
        ),
    )  # fmt: skip
    table = position_vectors.encoding(n, d_model, layout)
    names = position_vectors.dimension_names(d_model, layout)
    theme = current_theme()
    draw_plot(place, drawn(encoding_heatmap, table, theme, trained=trained), "table",
              f"Positional encodings of {n} positions in {d_model} dimensions: fast stripes on the "
              "left, slow ones on the right.")  # fmt: skip
    place.expander("The formula").markdown(
        r"$$PE_{(pos,\,2i)}=\sin(pos\;\omega_i) \qquad PE_{(pos,\,2i+1)}=\cos(pos\;\omega_i)"
        r"\qquad \omega_i = 10000^{-2i/d_\text{model}}$$"
    )
    size: dict[str, Any] = {"n": n, "d_model": d_model, "layout": layout}
    download_below(place, None, "positions", exhibits.positions, table.size, **size)

    place = section(
        "Each dimension is a wave",
        "Read a column from top to bottom and you see a wave. The first pair turns once in about 6 "
        f"positions, the last in {position_vectors.wavelengths(d_model)[-1]:,.0f}. Like the "
        "digits of a counter, fast waves distinguish neighbours, and slow ones early from late.",
    )
    dims = dimensions_param(d_model, layout)
    url_state.show(dims)
    chosen = place.multiselect(
        "Dimensions", range(d_model), max_selections=_MOST_CURVES,
        help="Components of the position's vector, counted from 0.",
        format_func=lambda i: f"{i} ({names[i]})", **bound(dims),
    )  # fmt: skip
    labels = [f"{i} ({names[i]})" for i in chosen]
    figure = drawn(curves, np.arange(n), table[:, chosen], labels, theme, trained=trained)
    draw_plot(
        place, figure, "curves", f"Values along the positions of dimensions: {', '.join(labels)}."
    )
    download_below(
        place, None, "positions-dimensions", exhibits.position_curves, **size,
        dimensions=tuple(chosen), labels=tuple(labels),
    )  # fmt: skip


def draw_products(d_model: int, n: int, layout: PositionLayout) -> None:
    """Draw PE · PE^T, as a matrix and by offset."""
    place = section(
        "Only the distance counts",
        r"The dot product of two encodings is $\sum_i \cos\big((pos-pos')\,\omega_i\big)$: it "
        "depends on the distance between two positions, not on where they are. So every diagonal "
        "of $PE \\cdot PE^\\top$ has one colour, and the curves from different positions "
        f"coincide. A position with itself gives d/2 = {d_model // 2}.",
    )
    shown = position_vectors.encoding(min(n, 128), d_model, layout)
    values = position_vectors.offset_products(_STARTS, _OFFSETS, d_model)
    theme = current_theme()
    left, right = place.columns(2)
    matrix = drawn(products, shown @ shown.T, theme, limit=d_model / 2, height=360)
    draw_plot(left, matrix, "products", "PE times its transpose: every diagonal has one value.")
    draw_chart(
        drawn(product_by_offset, np.arange(_OFFSETS), values, _STARTS, theme),
        "Dot products along the offset: curves from three positions coincide.", right,
    )  # fmt: skip
    download_below(
        place, None, "positions-products", exhibits.position_products, n=len(shown),
        d_model=d_model, starts=_STARTS, n_offsets=_OFFSETS, layout=layout,
    )  # fmt: skip


@st.fragment
def draw_shift(d_model: int, layout: PositionLayout) -> None:
    """Draw the shift property: the turned pairs of PE(pos), and PE(pos + k)."""
    place = section(
        "A position is a row of clocks",
        "The numbers of a position come in pairs, and each pair is the hand of a clock. **A step "
        "to the next token turns every hand by its own angle**, wherever it points: fast "
        "hands distinguish neighbours, slow ones early from late. Choose a position and an offset: "
        "the turned hand must meet the ring, which comes from the formula.",
    )
    inputs = place.columns(2)
    pos = inputs[0].number_input(
        "Position pos", 0, 100_000, help="A token's position; the first is 0.",
        **bound(PositionsChoice.pos),
    )  # fmt: skip
    k = inputs[1].number_input(
        "Offset k", -1_000, 1_000, **bound(PositionsChoice.shift),
        help="Number of positions to move forward, or back if negative.",
    )  # fmt: skip
    result = position_vectors.shift(pos, k, d_model, layout)
    pairs = sorted({round(x) for x in np.linspace(0, (d_model // 2 - 1) / 2, 5)})
    names = [f"pair {pair}" for pair in pairs]
    before, after, expected = (
        array[pairs] for array in (result.before, result.after, result.expected)
    )
    draw_chart(
        drawn(clocks, before, after, expected, names, current_theme()),
        f"Pairs of PE({pos}) as clock hands; turned by {k} each ends at PE({pos + k}).", place,
    )  # fmt: skip
    rows = {
        "pair i": pairs,
        "turn kω": [f"{math.degrees(a):.2f}°" for a in result.angles[pairs]],
        "sin, cos at pos": [f"{s:+.4f}, {c:+.4f}" for s, c in before],
        "after the turn": [f"{s:+.4f}, {c:+.4f}" for s, c in after],
        "PE(pos + k)": [f"{s:+.4f}, {c:+.4f}" for s, c in expected],
    }
    folded = place.expander("The mathematics, with numbers")
    folded.markdown(
        "The paper's reason for sinusoids: for every offset $k$ one matrix gives "
        r"$PE_{pos+k} = M_k\,PE_{pos}$. It turns each (sin, cos) pair by the angle $k\,\omega_i$."
    )
    folded.table(rows, hide_index=True)
    download_below(
        place, None, "positions-shift", exhibits.position_shift, pos=pos, k=k, d_model=d_model,
        layout=layout,
    )  # fmt: skip
    folded.markdown(
        f"Over all {d_model} dimensions, $M_k\\,PE_{{pos}}$ and $PE_{{pos+k}}$ differ by at most "
        f"**{result.largest_error:.1e}**; with the same $M_k$ at each of the positions 0 to "
        f"{result.positions_checked - 1}, by at most **{result.largest_error_anywhere:.1e}**. That "
        "is rounding: a float32 near 1 is exact to about 6e-8."
    )
    url_state.write_url()


def draw_beyond(
    view: View, d_model: int, n: int, trained: int | None, tables: dict[str, Floats], kind: str
) -> None:
    """Draw the formula and a table beyond the positions seen in training."""
    limit = trained or n
    waves = position_vectors.wavelengths(d_model)
    slow = int((waves > limit).sum())
    known = (
        f"The longest sentence in this model's training had {trained} positions."
        if trained
        else "This model does not record its longest training sentence; the shaded part starts "
        f"at {limit} positions."
    )
    ends = "".join(f" after position {len(rows) - 1}" for rows in list(tables.values())[:1])
    place = section(
        "Beyond the longest training sentence",
        f"{known} The formula simply continues (as section 3.5 hoped); a {kind} table has no next "
        f"row{ends}. But {slow} of the {d_model // 2} pairs need more than {limit} positions "
        "for one turn: in the shaded part they take values never seen in training, and nothing "
        "guarantees that the model can use them.",
    )
    positions = np.arange(2 * limit)
    values, names = position_vectors.around(limit, d_model, tables, kind)
    figure = drawn(curves, positions, values, names, current_theme(), trained=limit)
    draw_plot(place, figure, "beyond", f"{'; '.join(names)}; shaded from position {limit} on.")
    size = {"limit": limit, "d_model": d_model}
    if tables:
        stored = exhibits.stored_positions_beyond
        download_below(place, view, "positions-beyond", stored, **size, kind=kind)
    else:
        download_below(place, None, "positions-beyond", exhibits.positions_beyond, **size)


def say_nothing_learned(view: View) -> None:
    """Draw a notice on why no learned table is available."""
    st.caption(
        (f"**{plain(view.title)}** computes its positions by the formula" if view.checkpoint
         else "No model is loaded")
        + ", so there is no learned table to compare. The paper tried one: 25.7 BLEU against "
        "25.8 (table 3, row E)."
    )  # fmt: skip


def draw_learned(view: View, learned: dict[str, Floats]) -> None:
    """Draw a learned table beside the formula."""
    place = section(
        "Learned instead of computed",
        f"**{plain(view.title)}** learned a vector for each position (table 3, row "
        "E). A band along the diagonal means that nearby positions are similar. "
        "Cosine similarity compares directions only, so both pictures share one scale.",
    )
    side = choose_one("Table", PositionsChoice.side, list(learned), place)
    rows = learned[side][: exhibits.MOST_LEARNED]
    even = rows.shape[1] + rows.shape[1] % 2
    formula = position_vectors.encoding(len(rows), even, "interleaved")
    tables = {"Learned": (rows, "learned"), "Sinusoids of the same size": (formula, "sinusoidal")}
    for where, (title, (vectors, kind)) in zip(place.columns(2), tables.items(), strict=True):
        where.caption(title)
        figure = drawn(
            products, cosines(vectors), current_theme(), limit=1, title="cosine", height=360
        )
        draw_plot(where, figure, kind, f"Cosine similarity between {kind} positions.")
    download_below(place, view, "positions-learned", exhibits.learned_positions, side=side)


#: Distances drawn to both sides.
_REACH = 40


def draw_distances(view: View, model: Transformer) -> None:
    """Draw what each head adds for each distance."""
    place = section(
        "Distances instead of positions",
        f"In **{plain(view.title)}** vectors contain no position. Each head adds a "
        "bias to its scores that depends on the distance of the key, before (left) or after "
        "(right) the query; far distances share one. All layers of a stack use the same biases, "
        "which started at 0 (as in T5, Raffel et al. 2020). **Warm colours are distances that "
        "the head prefers**, blue ones it avoids.",
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
    download_below(
        place, view, "positions-relative", exhibits.relative_positions, numbers.size, side=side,
        reach=_REACH,
    )  # fmt: skip


def draw_stored(view: View, model: Transformer) -> None:
    """Draw the table and its difference from the formula."""
    tables, note = position_vectors.tables_of(model), position_vectors.stored_note(model)
    place = section(
        "The table that this model adds",
        f"The formula's sinusoids are computed; **{plain(view.title)}** stores its "
        "positions as numbers, which every page uses.\n\n"
        f"**{note}**\n\nThe lower picture has its own scale.",
    )
    side = choose_one("Table", PositionsChoice.side, list(tables), place)
    rows = tables[side][: url_state.get(PositionsChoice.length)]
    exact: Floats = sinusoids(model.config, len(rows)).numpy()
    apart = rows - exact
    most = float(np.abs(apart).max())
    stack = side.lower()
    draw_positions(place, rows, "stored", f"The {stack}'s stored table, {len(rows)} positions.")
    place.caption(f"Stored minus formula: at most {most:.1e} in these {len(rows)} positions")
    if most:
        alt = f"The {stack}'s stored table less the formula, by up to {most:.1e}."
        draw_positions(place, apart, "stored_apart", alt, limit=most)
    download_below(
        place, view, "positions-stored", exhibits.stored_positions, 3 * rows.size, side=side,
        n=len(rows),
    )  # fmt: skip
