"""The three ways to look at attention: a grid of all maps, lines between tokens, one matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.attention import describe, head_table, heatmap, mass_on
from figures.labels import show_token
from figures.markdown import code
from transformer.measures.heads import HOWS, Head
from transformer.types import Floats
from ui.attention.cached import get_drawing, get_sheet, get_tabs, largest
from ui.attention.choice import AttentionChoice, kinds_of, to_pieces, to_units
from ui.attention.maps import Maps, dimmed, selected_mass, shown_map
from ui.attention.settings import (
    COMBINE,
    DIM,
    HEADS,
    KIND,
    MAP,
    MASS,
    PIN,
    choose_cell,
    choose_heads,
    choose_selection,
    mark_heads,
    take_kind,
    wanted_cell,
    wanted_marks,
)
from ui.components.grid.mount import attention_grid
from ui.components.lens import MOST_TOKENS, Map, Selection
from ui.components.lens.mount import attention_lens
from ui.components.lines import Drawing, Pin
from ui.components.lines.mount import attention_lines
from ui.core import url_state
from ui.core.glossary import term
from ui.core.layout import sized
from ui.core.theme import current_theme
from ui.core.url_state import HEAD, LAYER
from ui.core.view import View
from ui.core.widgets import bound, fill, refill
from ui.work.cache import get_trace, get_tracer

#: Room for grid and lens side by side in a window of 1280 px, and what they need of it, in px.
_ROOM, _GRID_LABELS, _GRID_CELL, _LENS_LABELS, _LENS_CELL = 860, 65, 60, 95, 3.5

_NOT_AN_EXPLANATION = (
    "Attention shows where a head reads, not what the model does with it; by itself it is not an "
    "explanation."
)


def draw_grid(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Every map of the kind, and the chosen one under the lens."""
    trace = get_trace(view)
    shown = shown_map(maps, choice)
    # By all kinds together: another one is drawn in the browser, and nothing moves then.
    heads, longest = largest(view, trace, choice)
    share = min(0.56, max(0.38, (_GRID_LABELS + _GRID_CELL * (heads + 1)) / _ROOM))
    beside = _LENS_LABELS + _LENS_CELL * longest <= (1 - share) * _ROOM
    grid, lens = st.columns([share, 1 - share], gap="large") if beside else (st, st)
    several = len(kinds_of(trace)) > 1
    with grid.container():
        attention_grid(
            get_tabs(view, trace, choice) if several else get_sheet(view, choice),
            chosen=wanted_cell(), on_choose=choose_cell, key="grid",
            cell_width=120 if beside else 56,
            marked=wanted_marks(choice), on_mark=mark_heads,
            kind=choice.kind if several else "", on_kind=take_kind if several else None,
        )  # fmt: skip
        st.caption(f"{maps.story.about} {_NOT_AN_EXPLANATION}" if several else _NOT_AN_EXPLANATION)
    with lens.container():
        _say_name(view, shown, choice)
        attention_lens(shown, key="lens", max_height=390 if beside else 900)


def draw_heads(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Lines between tokens for a set of heads."""
    drawn = get_drawing(view, choice)
    slider, said = st.columns([2, 3], gap="medium", vertical_alignment="center")
    draw_mass(slider)
    if not choice.heads:
        said.caption("No head is switched on. Choose some in the legend.")
    else:
        covered = dimmed(maps, choice)
        left_out = ", lines to the dimmed tokens left out" if covered else ""
        heads = "1 head" if len(choice.heads) == 1 else f"{len(choice.heads)} heads"
        said.caption(
            f"{drawn.lines:,} lines hold {drawn.share:.1%} of the attention of {heads}{left_out}. "
            "A thicker line is a larger weight."
        )
    draw_lines(drawn, choice, maps, "lines")
    if choice.heads:
        _draw_way_inside(view, choice)
    st.caption(_NOT_AN_EXPLANATION)


def draw_mass(where: DeltaGenerator) -> None:
    """The control of how many lines are drawn."""
    where.slider(
        "Share of each query's weight to draw", 0.0, 1.0, step=0.05, **bound(MASS),
        help="For each query and head the strongest lines are drawn until together they hold this "
        "share of its weight. At 0 nothing is drawn, at 1 every weight above 0.",
    )  # fmt: skip


def draw_lines(
    drawn: Drawing,
    choice: AttentionChoice,
    maps: Maps,
    key: str,
    *,
    pins: bool = True,
    beside: bool = False,
) -> None:
    """Mount the lines of one view; heads and the pinned token go to the store.

    Args:
        pins: whether the stored pin is a token of these maps.
        beside: whether other maps stand beside these; heads that only those have stay chosen.
    """
    groups = {"query": maps.query_groups, "key": maps.key_groups}
    pinned: Pin | None = None
    if pins and choice.pin is not None:
        units = to_units((choice.pin[1],), groups[choice.pin[0]])
        pinned = (choice.pin[0], units[0]) if units else None
    n_layers, n_heads = maps.weights.shape[:2]

    def changed(heads: tuple[Head, ...], pin: Pin | None) -> None:
        stored = (url_state.get(HEADS) if beside else None) or ()
        others = (each for each in stored if each[0] >= n_layers or each[1] >= n_heads)
        choose_heads((*heads, *others))
        if pins:
            url_state.put(PIN, (pin[0], to_pieces((pin[1],), groups[pin[0]])[0]) if pin else None)

    attention_lines(drawn, pinned=pinned, on_change=changed, key=key)


def draw_matrix(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """One map with its values, and the weight on chosen tokens."""
    shown = shown_map(maps, choice)
    _draw_cell_boxes(choice, maps)
    longest = max(len(maps.queries), len(maps.keys))
    wide = longest > 24
    matrix, sums = (st, st) if wide else st.columns([0.56, 0.44], gap="large")
    with matrix.container():
        _say_name(view, shown, choice)
        if longest <= MOST_TOKENS:
            selected = (
                to_units(choice.queries, maps.query_groups), to_units(choice.keys, maps.key_groups)
            )  # fmt: skip
            attention_lens(
                shown, key="matrix", max_height=900 if wide else 470, selected=selected,
                on_select=_as_pieces(maps),
            )  # fmt: skip
        else:
            figure = heatmap(
                shown.weights, maps.queries, maps.keys, current_theme(),
                query_title=maps.story.queries, key_title=maps.story.keys,
                dimmed_keys=shown.dimmed_keys,
            )  # fmt: skip
            described = describe(shown.weights, maps.queries, maps.keys)
            st.plotly_chart(
                sized(figure), key="large", theme=None, alt=f"{shown.name}: {described}."
            )
    with sums.container():
        _draw_sums(choice, maps)


def draw_combine() -> None:
    """The control of how several heads become one map."""
    st.segmented_control(
        "Combine heads by", HOWS, required=True, **bound(COMBINE),
        format_func={"mean": "Mean", "max": "Maximum"}.__getitem__,
        help="The mean of several maps is again a map whose rows sum to 1. The maximum is taken "
        "weight by weight: it misses no head's focus, but its rows may sum to more than 1.",
    )  # fmt: skip


def draw_dim() -> None:
    """The switch that covers special tokens."""
    st.toggle(
        "Dim special tokens", **bound(DIM),
        help="Cover the columns of `<s>` and `</s>`. Weight there is information: it says how "
        "little a head takes from the words. The share of attention that is hidden is the mean "
        "over the map's queries.",
    )  # fmt: skip


def draw_aggregate(choice: AttentionChoice, maps: Maps) -> None:
    """How several heads become one map, and which ones are the chosen heads; for a popover."""
    refill("combine_widget", "heads_widget", "map_widget")
    draw_combine()
    options = [
        f"{i + 1}.{j + 1}"
        for i in range(maps.weights.shape[0])
        for j in range(maps.weights.shape[1])
    ]
    fill("heads_widget", [f"{layer + 1}.{head + 1}" for layer, head in choice.heads])
    st.multiselect(
        "Chosen heads", options, key="heads_widget", on_change=_take_heads,
        placeholder="Layer.head", help="Layer and head. The view Heads draws the same set.",
    )  # fmt: skip
    fill("map_widget", "heads" if choice.chosen else "cell")
    st.segmented_control(
        "Under the lens", ("cell", "heads"), required=True, key="map_widget", on_change=_take_map,
        format_func={"cell": "One cell of the grid", "heads": "The chosen heads"}.__getitem__,
        disabled=not choice.heads,
    )  # fmt: skip


def _draw_cell_boxes(choice: AttentionChoice, maps: Maps) -> None:
    """Layer and head by name, for those who know which map they want."""
    n_layers, n_heads = maps.weights.shape[:2]
    over = "Mean" if choice.how == "mean" else "Maximum"
    boxes = st.columns([1, 1, 2], vertical_alignment="bottom")
    _cell_box(boxes[0], "Layer", f"{over} over all layers", n_layers, choice.cell[0])
    _cell_box(boxes[1], "Head", f"{over} over all heads", n_heads, choice.cell[1])
    if choice.chosen:
        boxes[2].caption("The chosen heads are shown; a layer or head here shows that one instead.")


def _cell_box(box: DeltaGenerator, name: str, all_of_them: str, n: int, value: int | None) -> None:
    key = f"{name.lower()}_box"
    fill(key, "all" if value is None else str(value + 1))
    box.selectbox(
        name, ["all", *(str(i + 1) for i in range(n))], key=key, on_change=_take_cell,
        format_func=lambda raw: all_of_them if raw == "all" else f"{name} {raw}", help=term(name),
    )  # fmt: skip


def _draw_sums(choice: AttentionChoice, maps: Maps) -> None:
    """The weight of every head on chosen tokens, with its definition."""
    st.markdown("**Sum over chosen tokens**")
    st.caption(
        "For every head: the weights on the chosen keys, added up, averaged over the chosen "
        "queries (all of them where none is chosen). 1 means that a head looks nowhere else."
    )
    for side, labels, positions, groups in (
        ("Keys", maps.keys, choice.keys, maps.key_groups),
        ("Queries", maps.queries, choice.queries, maps.query_groups),
    ):
        named = [f"{at + 1} {show_token(label)}" for at, label in enumerate(labels)]
        key = f"{side.lower()}_widget"
        fill(key, [named[at] for at in to_units(positions, groups)])
        st.multiselect(
            side, named, key=key, on_change=_take_tokens, args=(maps,),
            placeholder="All queries" if side == "Queries" else "Choose keys",
            help=term("query" if side == "Queries" else "key"),
        )  # fmt: skip
    if not choice.keys:
        st.caption("No key is chosen: choose some here, or click their labels in the matrix.")
        return
    values = selected_mass(maps, choice)
    strongest = divmod(int(values.argmax()), values.shape[1])
    alt = (
        f"Table of {values.shape[0]} layers and {values.shape[1]} heads. The largest is "
        f"{values.max():.2f} in layer {strongest[0] + 1}, head {strongest[1] + 1}; "
        f"the mean is {values.mean():.2f}."
    )
    st.altair_chart(sized(head_table(values, current_theme())), key="sums", theme=None, alt=alt)
    st.caption(alt.partition(". ")[2])


def _draw_way_inside(view: View, choice: AttentionChoice) -> None:
    """A link into the head that is shown, at the query that was chosen; of several the first."""
    if view.kind != "checkpoint" and get_tracer(view).lacks("internals") is not None:
        return
    layer, head = choice.heads[0] if choice.chosen or choice.display == "heads" else choice.cell
    query = choice.queries[0] if choice.queries else None
    if choice.display == "heads" and choice.pin is not None and choice.pin[0] == "query":
        query = choice.pin[1]
    label, which = "Open a head", "a head in which there is much to see"
    if layer is not None and head is not None:
        label, which = f"Open layer {layer + 1}, head {head + 1}", "this head"
    st.page_link(
        "pages/head_page.py",
        label=label,
        icon=":material/center_focus_strong:",
        help=f"Follow one query through every stage of {which}, with the real numbers.",
        query_params=url_state.query()
        | {
            KIND.name: choice.kind,
            LAYER.name: LAYER.write(None if layer is None else layer + 1),
            HEAD.name: HEAD.write(None if head is None else head + 1),
        }
        | ({} if query is None else {"query": str(query + 1)}),
    )


def _say_name(view: View, shown: Map, choice: AttentionChoice) -> None:
    hidden = ""
    if shown.dimmed_keys:
        labels = dict.fromkeys(code(shown.key_tokens[at]) for at in shown.dimmed_keys)
        hidden = f" · dimming {' and '.join(labels)} hides " + _share(
            shown.weights, shown.dimmed_keys
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{shown.name}**" + hidden, width="content")
        _draw_way_inside(view, choice)


def _share(weights: Floats, keys: Sequence[int]) -> str:
    total = float(weights.sum(dtype="f8"))
    share = float(mass_on(weights, keys)) * len(weights) / total if total else 0.0
    return f"{share:.1%} of the attention in this map"


def _as_pieces(maps: Maps) -> Callable[[Selection], None]:
    def take(selection: Selection) -> None:
        queries, keys = selection
        choose_selection((to_pieces(queries, maps.query_groups), to_pieces(keys, maps.key_groups)))

    return take


def _take_tokens(maps: Maps) -> None:
    chosen = [
        tuple(sorted(int(each.split(" ", 1)[0]) - 1 for each in st.session_state[key]))
        for key in ("queries_widget", "keys_widget")
    ]
    _as_pieces(maps)((chosen[0], chosen[1]))


def _take_cell() -> None:
    chosen = [st.session_state[key] for key in ("layer_box", "head_box")]
    layer, head = (None if raw == "all" else int(raw) - 1 for raw in chosen)
    choose_cell((layer, head))


def _take_heads() -> None:
    chosen = "-".join(st.session_state["heads_widget"]) or "none"
    url_state.put(HEADS, HEADS.parse(chosen))
    url_state.put(MAP, "heads" if st.session_state["heads_widget"] else "cell")


def _take_map() -> None:
    url_state.put(MAP, st.session_state["map_widget"])
