"""Maps of both sides next to each other: one matrix each, their difference, grids, lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from figures.labels import plain_token
from figures.markdown import code, plain
from transformer.measures.compare import divergence
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.cached import get_drawing, get_maps, get_sheet
from ui.attention.choice import AttentionSettings
from ui.attention.maps import KIND_TEXTS, AttentionChoice, Maps, shown_map
from ui.attention.views import draw_combine, draw_dim, draw_lines, draw_mass
from ui.compare.choice import (
    BESIDE,
    DISPLAYS,
    OTHER_HEAD,
    OTHER_LAYER,
    Setup,
    can_follow,
    choices_of,
    choose_left,
    choose_right,
    join_cells,
    joined,
    kind_now,
    shared_kinds,
)
from ui.compare.maps.pairing import Fit, changed_places, difference_map, fit_of
from ui.compare.sides import Pair
from ui.components.grid.mount import attention_grid
from ui.components.lens import Map
from ui.components.lens.mount import attention_lens
from ui.core import url_state
from ui.core.units import UNITS, units_control
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import bound, fill, refill

_NAMES = {
    "matrix": "Maps", "difference": "Difference", "grid": "All heads",
    "differences": "All differences", "lines": "Lines",
}  # fmt: skip

_AXES = ("layer", "head")

#: What a link brings back of the maps.
PARAMS: tuple[Param[Any], ...] = (
    KIND, LAYER, HEAD, OTHER_LAYER, OTHER_HEAD, UNITS, AttentionSettings.dim, AttentionSettings.how,
    AttentionSettings.heads, AttentionSettings.mass, AttentionSettings.pin,
)  # fmt: skip

#: Pixels that a map beside another one may take in height.
_TALL = 430


@dataclass(frozen=True, eq=False)
class Both:
    """Both sides' maps of one kind of attention.

    Attributes:
        setup: the sides.  traces: of left and right.
        kind: of attention.  fit: how the two line up.
        choices, maps: of left and right; in the units of `fit` for the difference.
    """

    setup: Setup
    traces: tuple[Trace, Trace]
    kind: AttentionKind
    fit: Fit
    choices: tuple[AttentionChoice, AttentionChoice]
    maps: tuple[Maps, Maps]

    @property
    def views(self) -> tuple[View, View]:
        """Left and right."""
        return self.setup.left, self.setup.right

    def rows(self, *draws: Callable[[int], object]) -> None:
        """Draw rows of two columns; a side is 0 or 1."""
        for draw in draws:
            for side, column in enumerate(st.columns(2, gap="large")):
                with column.container():
                    draw(side)


def open_maps(pair: Pair, display: str, *, displays: bool = True) -> Both | None:
    """Draw the controls and return what both sides have of the choice; None if that is nothing.

    Args:
        display: how to look at the maps.
        displays: whether that can be chosen.
    """
    left, right = (side.trace for side in pair.sides)
    kinds = shared_kinds(left, right)
    if not kinds:
        st.info("These two have no kind of attention in common.", icon=":material/info:")
        return None
    kind = kind_now(kinds)
    with pair.controls.container(key="compare_maps", horizontal=True, vertical_alignment="center"):
        draw_kinds(kinds, kind)
        if displays:
            draw_displays()
        draw_options()
    setup, units = pair.setup, url_state.get(UNITS)
    fit = fit_of(left, right, kind, units, by_place=setup.pairing == "sentences")
    if display.startswith("difference") and fit.units:
        units = fit.units
    choices = choices_of(left, right, kind, units)
    one, two = (
        get_maps(side.view, side.trace, choice)
        for side, choice in zip(pair.sides, choices, strict=True)
    )
    return Both(setup, (left, right), kind, fit, choices, (one, two))


def draw_kinds(kinds: tuple[AttentionKind, ...], kind: AttentionKind) -> None:
    """Draw the control of the kind, of those that both sides have."""
    arguments = bound(KIND, *AttentionSettings.of("tokens"))
    fill(arguments["key"], kind)
    st.segmented_control(
        "Kind of attention", kinds, label_visibility="collapsed", required=True, **arguments,
        # A row holds the kinds and the ways to look, so the kinds are short, as on the grid's tabs.
        format_func=lambda each: KIND_TEXTS[each].short,
    )  # fmt: skip


def draw_displays() -> None:
    """Draw the control of the display."""
    st.segmented_control(
        "View", DISPLAYS, label_visibility="collapsed", required=True, **bound(BESIDE),
        format_func=_NAMES.__getitem__,
    )  # fmt: skip


def draw_options() -> None:
    """Draw the options that hold for the maps of both sides."""
    with st.popover("Options", icon=":material/tune:", type="tertiary"):
        refill("units_widget", "dim_widget", "combine_widget")
        units_control()
        draw_dim()
        draw_combine()


def _cell_boxes(both: Both, side: int) -> None:
    """Draw the boxes of one side's layer and head; B's may follow A's."""
    params = ((LAYER, HEAD), (OTHER_LAYER, OTHER_HEAD))[side]
    shape = both.maps[side].weights.shape
    place = st.container(key=f"compare_cells_{'AB'[side]}")
    for axis, box in enumerate(place.columns(2, gap="small")):
        param: Param[Any] = params[axis]
        raws = ["mean", *map(str, range(1, shape[axis] + 1))]
        if side == 1:
            raws.insert(0, "same")
        raw = param.write(url_state.get(param))
        key = f"{param.name}_widget"
        fill(key, raw if raw in raws else "mean")
        box.selectbox(
            f"{'AB'[side]} {_AXES[axis]}", raws, key=key, on_change=_keep, args=(param,),
            format_func=partial(_number, side, axis), label_visibility="collapsed",
        )  # fmt: skip


def _keep(param: Param[Any]) -> None:
    url_state.put(param, param.parse(st.session_state[f"{param.name}_widget"]))


def _number(side: int, axis: int, raw: str) -> str:
    name = _AXES[axis]
    said = {"same": f"{name} as A", "mean": f"all {name}s"}.get(raw, f"{name} {raw}")
    return f"{'AB'[side]}  {said}"


def draw_maps(both: Both, display: str) -> None:
    """Draw the chosen display."""
    {"matrix": _matrices, "difference": _difference, "grid": _grids, "lines": _lines}[display](both)


def _matrices(both: Both) -> None:
    both.rows(
        lambda side: _cell_boxes(both, side),
        lambda side: draw_lens(both, side, f"compare_lens_{side}", named=False),
    )


def draw_lens(
    both: Both, side: int, key: str, max_height: int = _TALL, *, named: bool = True
) -> None:
    """Draw one side's map, with its name above it."""
    shown = shown_map(both.maps[side], both.choices[side])
    if named:
        st.markdown(f"**{'AB'[side]}** · {plain(shown.name)}")
    attention_lens(shown, key=key, max_height=max_height)


def say_unpaired(both: Both) -> None:
    """Say why the maps cannot be subtracted, and what would help."""
    helps = both.fit.helps and can_follow(both.setup.right)
    offer = " Switch on “B follows A’s translation”." if helps else ""
    st.info(both.fit.why + offer, icon=":material/join_inner:")


def _difference(both: Both) -> None:
    if not both.fit.units:
        say_unpaired(both)
        _matrices(both)
        return
    both.rows(lambda side: _cell_boxes(both, side))
    shown = difference_map(*both.maps, both.choices)
    picture, words = st.columns([0.62, 0.38], gap="large")
    with picture.container():
        st.markdown(f"**{plain(shown.name)}**")
        attention_lens(shown, key="compare_difference", max_height=_TALL + 40)
    with words.container():
        for line in difference_words(both, shown):
            st.markdown(line)
        if both.fit.why:
            st.caption(both.fit.why)
        changed = changed_places(*both.maps)
        if changed:
            st.caption(changed)


def difference_words(both: Both, shown: Map) -> list[str]:
    """Return the size of the difference in sentences of Markdown."""
    if not shown.weights.any():
        return ["**Every weight is the same on both sides.**"]
    one, other = (
        shown_map(maps, choice).weights
        for maps, choice in zip(both.maps, both.choices, strict=True)
    )
    apart = divergence(one, other)
    row = int(apart.argmax())
    return [
        f"On average a row differs by **{apart.mean():.3f} bits** (Jensen-Shannon divergence: 0 "
        "for equal rows, 1 for rows that share no key).",
        f"Farthest apart is query {row + 1} {code(plain_token(shown.query_tokens[row]))}: "
        f"{apart[row]:.3f} bits.",
        "Each row of the difference sums to 0: where one side looks more, it looks less elsewhere.",
    ][: 3 if both.choices[0].how == "mean" else 2]  # fmt: skip


def _grids(both: Both) -> None:
    takes = choose_left, choose_right

    def grid(side: int) -> None:
        choice = both.choices[side]
        st.markdown(f"**{'AB'[side]}** · {plain(_short(both, side))}")
        attention_grid(
            get_sheet(both.views[side], choice), chosen=choice.cell, on_choose=takes[side],
            key=f"compare_grid_{side}", cell_width=56,
        )  # fmt: skip

    both.rows(grid)
    if not joined():
        st.button(
            "Show the same head in B", on_click=join_cells, icon=":material/link:",
            type="tertiary", key="compare_join",
        )  # fmt: skip
    both.rows(lambda side: draw_lens(both, side, f"compare_lens_{side}"))


def _short(both: Both, side: int) -> str:
    n_layers, n_heads = both.maps[side].weights.shape[:2]
    layers = "layer" if n_layers == 1 else "layers"
    return f"{n_layers} {layers} of {n_heads} head{'' if n_heads == 1 else 's'}"


def _lines(both: Both) -> None:
    draw_mass(st.container())
    left, right = (maps.weights.shape[2:] for maps in both.maps)
    drawings = [
        get_drawing(view, choice) for view, choice in zip(both.views, both.choices, strict=True)
    ]
    if both.maps[0].queries == both.maps[1].queries:  # the same query stands out on both sides
        lead = {"lead": drawings[0].header["lead"]}
        drawings[1] = replace(drawings[1], header=drawings[1].header | lead)

    def lines(side: int) -> None:
        choice, maps, drawn = both.choices[side], both.maps[side], drawings[side]
        heads = f"{len(choice.heads)} head{'' if len(choice.heads) == 1 else 's'}"
        st.markdown(f"**{'AB'[side]}** · {drawn.lines:,} lines of {heads}")
        pins = side == 0 or left == right
        draw_lines(drawn, choice, maps, f"compare_lines_{side}", pins=pins, beside=True)

    both.rows(lines)
