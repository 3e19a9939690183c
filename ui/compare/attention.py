"""Attention on both sides: single maps, all heads, lines, and differences."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from figures.attention import LETTERS, head_table
from figures.exhibit import Exhibit
from figures.labels import KIND_NAMES, count, plain
from transformer.measures.heads import EVENNESS_RULE, evenness
from transformer.types import AttentionKind
from ui.attention.against import draw_keys
from ui.attention.choice import (
    AttentionSettings,
    get_maps,
    lines_for,
    places_of,
    read_choice,
    sheet_for,
)
from ui.attention.maps import AttentionChoice, Maps, largest_cells, maps_of, shown_map
from ui.attention.views import draw_combine, draw_dim, draw_lines, draw_mass
from ui.compare import pairing
from ui.compare.choice import CompareChoice, can_follow, compared
from ui.compare.exhibits import MapsChoice, maps_exhibit
from ui.components.grid import Cell, GridChoice, grid_component
from ui.components.lens import Map
from ui.components.mount import show
from ui.core import url_state
from ui.core.layout import current_theme, draw_chart
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import OTHER_HEAD, OTHER_LAYER, Side
from ui.core.widgets import UNITS, CellChoice, bound, cells_options, choose_one, units_control
from ui.export.download import trace_for
from ui.frame.beside import Beside, Changes, Download, Pair, Setup, draw_cell
from ui.frame.cells import about_cells, measured_side
from ui.head.views import kind_now, shared_kinds
from ui.work.desk import computed
from ui.work.results import once

#: By name: the label, and the Attention page's display on each side.
DISPLAYS = {
    "matrix": ("Maps", "matrix"), "difference": ("Difference", "matrix"),
    "grid": ("All heads", "grid"), "differences": ("All differences", "grid"),
    "lines": ("Lines", "heads"),
}  # fmt: skip

BESIDE: Param[str] = Param("beside", url_state.one_of(DISPLAYS), "matrix")

#: URL parameters of the maps.
PARAMS: tuple[Param[Any], ...] = (
    KIND, LAYER, HEAD, OTHER_LAYER, OTHER_HEAD, UNITS, AttentionSettings.dim,
    AttentionSettings.how, AttentionSettings.heads, AttentionSettings.mass, AttentionSettings.pin,
    *CellChoice.params(),
)  # fmt: skip

#: Maximum height of maps side by side, in pixels.
_TALL = 430

#: Height below the cells that has to stay in sight for a class, in rem: what the pointer reads.
_FOOT = 2.0


@dataclass(frozen=True, eq=False)
class Both:
    """Both sides' maps of one kind of attention."""

    pair: Pair
    kind: AttentionKind
    fit: pairing.Fit  # alignment of the two maps
    choices: tuple[AttentionChoice, AttentionChoice]  # for A and B
    maps: tuple[Maps, Maps]  # of A and B; differences use the units of `fit`

    @property
    def shown(self) -> tuple[Map, Map]:
        """The maps of A and B on screen."""
        one, other = map(shown_map, self.maps, self.choices)
        return one, other

    @property
    def difference(self) -> Map:
        """A - B, of paired maps."""
        return pairing.difference_map(*self.maps, self.choices)

    def of(self, side: Side) -> tuple[AttentionChoice, Maps]:
        """Return one side's choice and maps."""
        at = LETTERS.index(side.letter)
        return self.choices[at], self.maps[at]


def choose(params: tuple[Param[Any], Param[Any]], cell: Cell) -> None:
    """Store one side's layer and head."""
    raws = ("mean" if at is None else str(at + 1) for at in cell)
    url_state.store({param: param.parse(raw) for param, raw in zip(params, raws, strict=True)})


def _join() -> None:
    url_state.forget(OTHER_LAYER, OTHER_HEAD)


def _place_of(side: Side) -> tuple[int | None, int | None]:
    """Return a side's layer and head, from 1.

    By default, of one model, the head that differs most at the last row with another word.
    """
    chosen = any(url_state.stored(param) for each in side.beside for param in each.cell_params)
    traces = left, right = [each.trace for each in side.beside]
    kind = kind_now(left, right)
    fit = pairing.fit_of(left, right, kind, url_state.get(UNITS), by_place=True)
    if chosen or not fit.units or len({each.view.entry.whole for each in side.beside}) > 1:
        return side.cell_now()
    found = pairing.most_different_head(*(maps_of(trace, kind, fit.units) for trace in traces))
    return side.cell_now() if found is None else found


def open_maps(pair: Pair, display: str, *, displays: bool = True) -> Both | None:
    """Draw the controls and return both sides' maps, or None without a common kind of attention.

    Args: display: a name in `DISPLAYS`.  displays: offer a choice of display, layer and head.
    """
    left, right = (side.trace for side in pair.sides)
    kinds = shared_kinds((left, right))
    if not kinds:
        st.info("A and B have no kind of attention in common.", icon=":material/info:")
        return None
    kind, by_place = kind_now(left, right), pair.setup.pairing != "models"
    fit = pairing.fit_of(left, right, kind, url_state.get(UNITS), by_place=by_place)
    with pair.controls:
        if displays:
            labels = {name: label for name, (label, _) in DISPLAYS.items()
                      if fit.units or name != "difference"}  # fmt: skip
            st.selectbox(
                "Show", list(labels), format_func=labels.__getitem__, width=145,
                label_visibility="collapsed",
                **bound(BESIDE, value=display if display in labels else "matrix"),
            )  # fmt: skip
        options = st.popover("Options", icon=":material/tune:", type="tertiary")
    with options:
        choose_one(
            "Kind of attention", KIND, {name: KIND_NAMES[name] for name in kinds}, chosen=kind
        )
        cells = st.container()
        units_control()
        cells_options()
        draw_dim()
        draw_combine()
    units = url_state.get(UNITS)
    if display.startswith("difference") and fit.units:
        units = fit.units
    one, two = (
        replace(
            read_choice(side.trace, kind, _place_of(side), DISPLAYS[display][1]),
            units=units, chosen=False, queries=(), keys=(),
        )
        for side in pair.sides
    )  # fmt: skip
    shape, stored = right.attention(kind).shape[:2], url_state.get(AttentionSettings.heads)
    if stored is None and all(np.less(head, shape).all() for head in one.heads):
        two = replace(two, heads=one.heads)  # a legend switches heads on both sides
    one_map = displays and DISPLAYS[display][1] == "matrix"
    a, b = (
        measured_side(side, places_of(choice) if one_map else ())
        for side, choice in zip(pair.sides, (one, two), strict=True)
    )
    pair = replace(pair, sides=(a, b), setup=replace(pair.setup, left=a.view, right=b.view))
    maps = get_maps(a.view, a.trace, one), get_maps(b.view, b.trace, two)
    both = Both(pair, kind, fit, (one, two), maps)
    if displays:
        for side in pair.sides:
            raws = [*map(LAYER.write, _place_of(side))]
            if side.letter == "B":
                raws = [*map(url_state.get, side.cell_params)]
            places = cells.columns(2, gap="small")
            draw_cell(side, places, both.of(side)[1].weights.shape, raws, mean=True)
    return both


def _draw(pair: Pair) -> Download | None:
    display = url_state.get(BESIDE)
    both = open_maps(pair, display)
    if both is None:
        return None
    if display == "difference" and not both.fit.units:
        display = "matrix"
    _draw_row(both, display)
    _DRAW[display](both)
    choice, place = both.choices[0], DISPLAYS[display][1] == "matrix"
    if text := about_cells(pair.setup.left, places_of(choice) if place else ()):
        st.caption(text)
    return _download(both, display)


def _draw_row(both: Both, display: str) -> None:
    """Draw, in sight of a class, a sentence about the maps and the way to their difference."""
    fit, right = both.fit, both.pair.setup.right
    about, other = _about_row(both), {"matrix": "difference", "difference": "matrix"}.get(display)
    if display == "difference":
        name = f"{KIND_NAMES[both.kind]}, {plain(both.difference.name)}"
        about = f"**{name}.** Orange: A looks more; blue: B looks more."
    with st.container(key="compare_row", horizontal=True, vertical_alignment="center"):
        if about:
            st.markdown(about, width="content")
        if other:
            st.button(
                DISPLAYS[other][0], key="to_difference", disabled=not fit.units,
                help=fit.why or None, on_click=url_state.put, args=(BESIDE, other),
            )  # fmt: skip
        if fit.helps and can_follow(right) and st.button(
            "Let B follow A’s translation", key="to_follow", on_click=url_state.put,
            args=(CompareChoice.follow, True), type="tertiary", icon=":material/join_inner:",
        ):  # fmt: skip
            st.rerun()


def _settings(side: Side) -> Changes:
    traces = [one.trace for one in side.beside]
    if not shared_kinds(traces):
        return {}
    kind = kind_now(*traces)
    counts = side.trace.attention(kind).shape
    cell = [None if at is None else at + 1 for at in url_state.indices(_place_of(side), counts)]
    return dict(zip((KIND, LAYER, HEAD), (kind, *cell), strict=True))


def _download(both: Both, display: str) -> Download | None:
    """Return the download for the maps on screen, or None if no head is chosen."""
    if not both.fit.units:
        display = {"difference": "matrix", "differences": "entropies"}.get(display, display)
    if display == "lines" and not all(choice.heads for choice in both.choices):
        return None
    n_numbers = 0
    for maps, choice in zip(both.maps, both.choices, strict=True):
        n_maps = {"entropies": 0, "lines": len(choice.heads), "matrix": 1, "difference": 1}
        layers, heads, n, m = maps.weights.shape
        n_numbers += n_maps.get(display, layers * heads) * n * m
    chosen = MapsChoice(display, both.choices)
    return Download(partial(_figure, both.pair.setup, chosen), chosen.stem, n_numbers)


def _figure(setup: Setup, chosen: MapsChoice) -> Exhibit:
    traces = trace_for(setup.left), trace_for(setup.right)
    return maps_exhibit(traces, chosen, compared(setup))


def draw_lens(both: Both, side: Side, key: str, max_height: int = _TALL) -> None:
    """Draw one side's map below its name, with what differs most from the other side marked."""
    choice, maps = both.of(side)
    drawn = replace(shown_map(maps, choice), foot=_FOOT, paired=True)
    if both.fit.units == choice.units:
        cells = largest_cells(np.abs(both.difference.weights), pairing.LEAST)
        drawn = replace(drawn, ringed=cells, changed=pairing.changed_labels(*both.maps))
    name = f"{KIND_NAMES[both.kind]}, {drawn.name[:1].lower()}{drawn.name[1:]}"
    st.markdown(f"{side.lead}{plain(name)}")
    show(drawn.lens(max_height), key=key)


def _matrices(both: Both) -> None:
    both.pair.rows(
        lambda side: draw_lens(both, side, side.key("compare_lens")),
        lambda side: draw_keys(side.view, both.of(side)[0], side.key("compare_lens_every")),
    )
    if both.fit.units == both.choices[0].units:
        st.caption(pairing.largest_differences(*both.shown, both.difference))


def _about_row(both: Both) -> str:
    """Return sentences on the last row with another word, or why there is no difference."""
    if not both.fit.units:
        return both.fit.why
    one, other = both.maps
    if both.fit.units != both.choices[0].units:
        one, other = (maps_of(side.trace, both.kind, both.fit.units) for side in both.pair.sides)
    if one.cells is not None or not (rows := pairing.changed_labels(one, other)[0]):
        return ""
    most = url_state.indices(pairing.most_different_head(one, other) or (), one.weights.shape)
    only = all(choice.cell == most for choice in both.choices)
    a, b = map(shown_map, (one, other), both.choices)
    return pairing.row_sentence(a, b, rows[-1]) + " No head differs more." * only


def _difference(both: Both) -> None:
    difference = replace(both.difference, foot=_FOOT)
    picture, words = st.columns([0.66, 0.34], gap="large")
    with picture.container():
        show(difference.lens(_TALL + 40), key="compare_difference")
    with words.container():
        lines = pairing.difference_words(*both.shown, difference, both.choices[0].how)
        st.markdown("\n\n".join(filter(None, (_about_row(both), *lines))))
        for note in filter(None, (both.fit.why, pairing.changed_places(*both.maps))):
            st.caption(note)


def _grids(both: Both) -> None:
    def grid(side: Side) -> None:
        choice, maps = both.of(side)
        n_layers, n_heads = maps.weights.shape[:2]
        st.markdown(f"{side.lead}{count(n_layers, 'layer')} of {count(n_heads, 'head')}")
        sheet = computed(side.view, sheet_for(choice))
        show(
            grid_component(sheet, choice.cell, cell_width=56), key=side.key("compare_grid"),
            on_choose=lambda chosen: choose(side.cell_params, chosen.cell),
        )  # fmt: skip

    both.pair.rows(grid)
    if {url_state.get(OTHER_LAYER), url_state.get(OTHER_HEAD)} != {"same"}:
        st.button(
            "Show the same head in B", on_click=_join, icon=":material/link:",
            type="tertiary", key="compare_join",
        )  # fmt: skip
    _matrices(both)


def _differences(both: Both) -> None:
    """Draw the grid and the chosen difference, or evenness if maps cannot be subtracted."""
    if not both.fit.units:
        both.pair.rows(lambda side: _draw_evenness(both, side))
        st.caption(EVENNESS_RULE)
        return
    both = replace(both, choices=pairing.joined_choices(both.maps, both.choices))
    difference, choice = both.difference, both.choices[0]
    key = (
        "differences", tuple(view.request for view in both.pair.setup.views),
        choice.kind, choice.units, choice.how, choice.dim,
    )  # fmt: skip

    def take(chosen: GridChoice) -> None:
        choose((LAYER, HEAD), chosen.cell)
        _join()

    grid, lens = st.columns([0.52, 0.48], gap="large")
    with grid.container():
        sheet = once(
            key, lambda: pairing.signed_sheet(both.maps, replace(choice, cell=(None, None)))
        )
        heads = grid_component(sheet, choice.cell, cell_width=76)
        show(heads, key="compare_differences", on_choose=take)
    with lens.container():
        st.markdown(f"**{plain(difference.name)}**")
        show(difference.lens(400), key="compare_difference")
        st.markdown("\n\n".join(pairing.difference_words(*both.shown, difference)))
    notes = pairing.without_partner(*both.maps), both.fit.why, pairing.changed_places(*both.maps)
    for note in filter(None, notes):
        st.caption(note)


def _draw_evenness(both: Both, side: Side) -> None:
    st.markdown(f"{side.lead}evenness of each head")
    spread = evenness(both.of(side)[1].weights)
    layer, head = np.unravel_index(int(spread.argmin()), spread.shape)
    draw_chart(
        head_table(spread.astype("f4"), current_theme(), what="share of entropy"),
        f"{side.letter}: each head's entropy as a share of its maximum; the lowest is "
        f"{spread.min():.2f}, in layer {layer + 1}, head {head + 1}.",
    )


def _lines(both: Both) -> None:
    draw_mass(st.container())
    left, right = (maps.weights.shape[2:] for maps in both.maps)
    drawings = {
        side.letter: computed(side.view, lines_for(both.of(side)[0])) for side in both.pair.sides
    }
    if both.maps[0].queries == both.maps[1].queries:  # the same query stands out on both sides
        lead = {"lead": drawings["A"].header["lead"]}
        drawings["B"] = replace(drawings["B"], header=drawings["B"].header | lead)

    def lines(side: Side) -> None:
        (choice, maps), drawn = both.of(side), drawings[side.letter]
        st.markdown(f"{side.lead}{drawn.lines:,} lines of {count(len(choice.heads), 'head')}")
        pins = side.letter == "A" or left == right
        draw_lines(drawn, choice, maps, side.key("compare_lines"), pins=pins, beside=True)
        draw_keys(side.view, choice, side.key("compare_lines_every"))

    both.pair.rows(lines)


_DRAW = {
    "matrix": _matrices, "difference": _difference, "grid": _grids,
    "differences": _differences, "lines": _lines,
}  # fmt: skip

MAPS = Beside(name="maps", below=_draw, settings=_settings, params=(BESIDE, *PARAMS))
