"""Displays of the Attention page: a grid of all maps, lines between tokens, one matrix."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.attention import head_table
from figures.labels import cell_noun, code, count, plain_token
from transformer.measures.heads import Head, combine_chosen
from transformer.trace.records import Trace
from ui.attention import against
from ui.attention import choice as choices
from ui.attention import maps as mapping
from ui.attention.choice import AttentionSettings
from ui.attention.editing import asked_heads, heads_out, marked, offer_cut, take_switch
from ui.attention.exhibits import attention_exhibit, stem
from ui.attention.maps import AttentionChoice, Maps
from ui.components.grid import GridChoice, grid_component
from ui.components.lens import Map
from ui.components.lines import Drawing, Pin
from ui.components.mount import show
from ui.components.packing import index_pair
from ui.core import url_state
from ui.core.glossary import CELL_TEXTS, term, word_start
from ui.core.layout import current_theme, draw_chart, draw_map
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import CellChoice, bound, cells_control, choose_one, filled, layer_and_head
from ui.export.download import download_button, source_of, trace_for
from ui.frame.cells import measured_view
from ui.frame.editing import offer_switch
from ui.frame.page import link_to
from ui.work.desk import computed, drawn, get_trace, get_tracer

#: Width of grid and lens together in a 1280 px window, and the widths of their parts, in px.
_ROOM, _GRID_LABELS, _GRID_CELL, _LENS_LABELS, _LENS_CELL = 860, 65, 60, 95, 3.5

_OPENS_ON = (
    " This head is the most selective: its query tells most about its key (mutual information). "
    "The legend adds others."
)


def about(maps: Maps) -> str:
    """Return the text about a kind of attention and the mark of a word start."""
    return f"{maps.kind_text.about} {word_start((*maps.queries, *maps.keys))}"


def draw_kinds(trace: Trace) -> None:
    """Draw the control for the attention kind."""
    kinds = mapping.kinds_of(trace)
    long = "-attention" if len(kinds) > 1 else ""  # for three in one row of a phone
    names = {kind: mapping.kind_text_of(trace, kind).name.removesuffix(long) for kind in kinds}
    choose_one("Kind of attention", KIND, names)


def draw_grid(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Draw every map of the kind, and the chosen one under the lens."""
    several, shown = measured_view(view), marked(view, choice, maps)
    trace = get_trace(several)
    # Sized for all kinds, so that switching between them does not move the layout.
    heads, longest = choices.largest(several, trace, choice)
    share = min(0.56, max(0.38, (_GRID_LABELS + _GRID_CELL * (heads + 1)) / _ROOM))
    beside = _LENS_LABELS + _LENS_CELL * longest <= (1 - share) * _ROOM
    both = st.container(key="grid_and_lens")
    grid, lens = both.columns([share, 1 - share], gap="large") if beside else (both, both)
    tabs, off = len(mapping.kinds_of(trace)) > 1, heads_out(view, trace)
    does = choices.heads_do(several, trace)
    does[choice.kind] |= asked_heads(view, choice, maps)
    with grid.container():
        one = choices.sheet_for(choice)
        maps_shown = grid_component(
            choices.get_tabs(several, trace, choice) if tabs else computed(several, one),
            choices.wanted_cell(choice), choice.kind if tabs else "",
            marked=choices.wanted_marks(choice), cell_width=120 if beside else 56, markable=True,
            off=off, does=does if tabs else {"": does[choice.kind]},
        )  # fmt: skip
        show(maps_shown, key="grid", on_choose=_take,
             on_switch_change=partial(take_switch, off or {}))  # fmt: skip
        if tabs:
            st.caption(about(maps))
    with lens.container():
        _say_name(view, shown, choice)
        show(
            shown.lens(390 if beside else 900, asks=True), key="lens",
            on_pair_change=partial(_ask, "lens", choice, maps),
        )  # fmt: skip
        against.say_measure(view, choice)
        offer_cut(view, choice, maps)
        enlarged = replace(choice, display="matrix", queries=(), keys=())
        offer(view, enlarged, maps, "enlarged", "Download this map")


def _ask(key: str, choice: AttentionChoice, maps: Maps) -> None:
    """Find the heads with weight on the cell that a lens reports."""
    pair = index_pair(st.session_state[key].get("pair"), maps.weights.shape[2:])
    if pair is not None:
        choices.ask_pair(choice, maps, *pair)


def _take(chosen: GridChoice) -> None:
    if chosen.kind and chosen.kind != url_state.get(KIND):
        url_state.put(KIND, chosen.kind)
    if chosen.marks:
        choices.mark_heads(chosen.marks)
    else:
        choices.choose_cell(chosen.cell)


def draw_heads(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Draw lines between tokens for a set of heads."""
    drawn, trace = computed(view, choices.lines_for(choice)), get_trace(view)
    off = (heads_out(view, trace) or {}).get(choice.kind)
    out = [[*head] for head in choice.heads if off is not None and off[head]]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        draw_kinds(trace)
        if len(choice.heads) == 1:
            offer_switch(view, trace, choice.kind, *choice.heads[0])
        if choice.heads:
            _draw_way_inside(view, choice)
    draw_lines(replace(drawn, header=drawn.header | {"out": out}), choice, maps, "lines")
    slider, summary = st.columns([2, 3], gap="medium", vertical_alignment="center")
    draw_mass(slider)
    if not choice.heads:
        summary.caption("No head is switched on. Choose some in the legend.")
        return
    left_out = ", not counting dimmed tokens" if mapping.dimmed_columns(maps, choice) else ""
    clearest = url_state.get(AttentionSettings.heads) is None and None in choice.cell
    every = "All queries together: " * (choice.pin is not None)
    summary.caption(
        f"{every}{drawn.lines:,} lines hold {drawn.share:.2f} of the attention of "
        f"{count(len(choice.heads), 'head')}{left_out}.{_OPENS_ON * clearest}"
    )
    with summary:
        _offer_pair(choice, maps)


def _offer_pair(choice: AttentionChoice, maps: Maps) -> None:
    """Offer to find the heads that look from the pinned query to its strongest key."""
    if choice.pin is None or choice.pin[0] != "query":
        return
    (query,) = mapping.to_units((choice.pin[1],), maps.query_groups)
    key = int(combine_chosen(maps.weights, choice.heads)[query].argmax())
    st.button(
        f"Which heads look from {code(maps.queries[query])} to {code(maps.keys[key])}?",
        key="ask_pair", type="tertiary", icon=":material/search:", on_click=choices.ask_pair,
        args=(choice, maps, query, key),
    )  # fmt: skip


def draw_mass(where: DeltaGenerator) -> None:
    """Draw the slider for the share of weight that lines hold."""
    where.slider(
        "Share of each query's weight to draw", 0.0, 1.0, step=0.05,
        help="For each query and head, the strongest lines are drawn until together they hold this "
        "share of its weight. At 0 no lines are drawn; at 1, one for every weight above 0.",
        **bound(AttentionSettings.mass),
    )  # fmt: skip


def draw_lines(
    drawn: Drawing, choice: AttentionChoice, maps: Maps, key: str, *, pins: bool = True,
    beside: bool = False,
) -> None:  # fmt: skip
    """Mount lines and store the heads and the token chosen in them.

    Args:
        pins: whether the stored pin refers to a token of these maps.
        beside: whether other maps are next to these; heads that only the others have stay chosen.
    """
    groups = {"query": maps.query_groups, "key": maps.key_groups}
    pinned: Pin | None = None
    if pins and choice.pin is not None:
        units = mapping.to_units((choice.pin[1],), groups[choice.pin[0]])
        pinned = (choice.pin[0], units[0]) if units else None
    n_layers, n_heads = maps.weights.shape[:2]

    def changed(chosen: tuple[tuple[Head, ...], Pin | None]) -> None:
        heads, pin = chosen
        stored = (url_state.get(AttentionSettings.heads) if beside else None) or ()
        others = (head for head in stored if head[0] >= n_layers or head[1] >= n_heads)
        values: dict[Param[Any], object] = {AttentionSettings.heads: (*heads, *others)}
        if pins:
            pinned = (pin[0], mapping.to_pieces((pin[1],), groups[pin[0]])[0]) if pin else None
            values[AttentionSettings.pin] = pinned
        url_state.store(values)

    show(drawn.component(pinned, max_height=320), key=key, on_choose=changed)


def draw_matrix(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Draw one map with its values, and every head's weight on the selected tokens."""
    shown = marked(view, choice, maps)
    wide = max(len(maps.queries), len(maps.keys)) > 24
    matrix, sums = (st, st) if wide else st.columns([0.66, 0.34], gap="medium")
    with matrix.container():
        _say_name(view, shown, choice)
        draw_map(
            shown, "matrix", max_height=900 if wide else 520, selected=maps.units(choice),
            on_choose=lambda selection: choices.choose_selection(maps.pieces(*selection)),
            on_pair=partial(_ask, "matrix", choice, maps),
        )  # fmt: skip
        against.say_measure(view, choice)
        offer_cut(view, choice, maps)
    with sums.container():
        draw_kinds(get_trace(view))
        _draw_place(choice, maps, st.columns(2), label_visibility="visible")
        several = measured_view(view)
        if shown.signed:
            st.caption("An effect is of one map at a time. Below are attention weights.")
        _draw_sums(choice, choices.get_maps(several, get_trace(several), choice))


def draw_against(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Draw one map by two measures, and the cells on which they disagree."""
    one = marked(view, choice, maps)
    one, other, sentences = against.ringed(one, against.other_map(view, choice))
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="place"):
        draw_kinds(get_trace(view))
        _draw_place(choice, maps, width=150)
        if one.out:
            st.caption("(removed)", width="content")
        cells_control()
        against.choose_second()
    left, right = st.columns(2, gap="medium")
    with left.container():
        draw_map(one, "lens", on_pair=partial(_ask, "lens", choice, maps))
    with right.container():
        if isinstance(other, Map):
            show(other.lens(420), key="against")
        else:
            st.caption(other)
    texts = CELL_TEXTS[url_state.get(CellChoice.against)]
    agree = (
        f"They agree: relative to the largest of its map, no cell differs by {against.SMALL:.0%}."
    )
    st.markdown("\n".join(map("- {}".format, sentences)) or agree)
    st.caption(f"**{texts['label']}.** {texts['text']}")
    _say_name(view, one, choice)
    against.say_measure(view, choice, check=True)


def _draw_place(
    choice: AttentionChoice, maps: Maps, wheres: Sequence[DeltaGenerator | None] = (None, None),
    **arguments: Any,
) -> None:  # fmt: skip
    """Draw the controls of the layer and the head of one map."""
    n_layers, n_heads = maps.weights.shape[:2]
    layer_and_head(
        "matrix", choice.kind, n_layers, n_heads, wheres, "Maximum" * (choice.how == "max"),
        lambda: url_state.put(AttentionSettings.map, "cell"), choice.cell, **arguments,
    )  # fmt: skip
    if choice.chosen:
        st.caption("This is the chosen heads combined. Pick a layer or head to see it alone.")


def draw_combine() -> None:
    """Draw the control for combining heads into one map."""
    choose_one(
        "Combine heads by", AttentionSettings.how, {"mean": "Mean", "max": "Maximum"},
        label_visibility="visible",
        help="When maps are averaged, each row still sums to 1. The maximum is taken element by "
        "element: it keeps every head's strongest weights, but a row may sum to more than 1.",
    )  # fmt: skip


def draw_dim() -> None:
    """Draw the switch that covers special tokens."""
    st.toggle(
        "Dim special tokens", **bound(AttentionSettings.dim),
        help="Cover the columns of `<s>` and `</s>`. Weight there is information: it tells you how "
        "little a head takes from the words. The share of attention hidden is averaged over the "
        "map's queries.",
    )  # fmt: skip


def draw_aggregate(choice: AttentionChoice, maps: Maps) -> None:
    """Draw the controls that choose and combine heads, in a popover."""
    draw_combine()
    n_layers, n_heads = maps.weights.shape[:2]
    st.multiselect(
        "Chosen heads", [*np.ndindex(n_layers, n_heads)], placeholder="Layer.head",
        format_func=lambda head: AttentionSettings.heads.write((head,)),
        **filled("heads_widget", [*choice.heads], choices.mark_heads),
        help="Layer and head, as in 3.1. *Word links* draws the same heads.",
    )  # fmt: skip
    choose_one(
        "Show enlarged", AttentionSettings.map,
        {"cell": "One cell of the grid", "heads": "The chosen heads"},
        chosen="heads" if choice.chosen else "cell", label_visibility="visible",
        disabled=not choice.heads,
    )  # fmt: skip


def _draw_sums(choice: AttentionChoice, maps: Maps) -> None:
    """Draw every head's weight on the selected tokens, summed over keys, mean over queries."""
    rows, columns = maps.units(choice)
    if choice.keys:
        values = mapping.selected_mass(maps, choice)
        layer, head = divmod(int(values.argmax()), values.shape[1])
        reader, read = (
            code(" + ".join(plain_token(labels[at]) for at in places) or "every token")
            for labels, places in ((maps.queries, rows), (maps.keys, columns))
        )
        noun = cell_noun(maps.cells) or "attention weight"
        alt = (
            f"Layer {layer + 1}, head {head + 1} has the largest {noun}: {values.max():.0%}; the "
            f"mean is {values.mean():.0%}."
        )
        st.markdown(f"**Each head's {noun}: {read} at {reader}**")
        draw_chart(drawn(head_table, values, current_theme(), what=noun), alt, key="sums")
        st.caption(alt)
    else:
        st.caption("Choose keys here, or their labels in the matrix.")

    def take(side: str, units: Sequence[int]) -> None:
        chosen = {"queries": rows, "keys": columns} | {side: tuple(sorted(units))}
        choices.choose_selection(maps.pieces(**chosen))

    for side, empty, labels, chosen in (
        ("Keys", "Choose keys", maps.keys, columns),
        ("Queries", "All queries", maps.queries, rows),
    ):
        named = [f"{at} {plain_token(label)}" for at, label in enumerate(labels, 1)]
        st.multiselect(
            side, range(len(labels)), format_func=named.__getitem__, placeholder=empty,
            help=term("query" if side == "Queries" else "key"),
            **filled(f"{side.lower()}_widget", [*chosen], partial(take, side.lower())),
        )  # fmt: skip


def _draw_way_inside(view: View, choice: AttentionChoice) -> None:
    """Draw a link to the (first) head on screen, at the selected query."""
    if view.kind != "checkpoint" and get_tracer(view).lacks("internals") is not None:
        return
    apart = choice.chosen or choice.display == "heads"  # from the name of the map
    layer, head = choice.heads[0] if apart else choice.cell
    query = choice.queries[0] if choice.queries else None
    if choice.display == "heads" and choice.pin is not None and choice.pin[0] == "query":
        query = choice.pin[1]
    label, which = "Open a head", "a head with a clear pattern"
    if layer is not None and head is not None:
        named = f"layer {layer + 1}, head {head + 1}" if apart else "this head"
        label, which = f"Open {named}", "this head"
    layer, head, query = (None if at is None else at + 1 for at in (layer, head, query))
    link_to(
        "head", label,
        values={KIND: choice.kind, LAYER: layer, HEAD: head, url_state.position("query"): query},
        help=f"Follow one query through every stage of {which}, with the real numbers.",
    )  # fmt: skip


def _say_name(view: View, shown: Map, choice: AttentionChoice) -> None:
    hidden = ""
    if shown.dimmed_keys:
        labels = dict.fromkeys(code(shown.key_tokens[at]) for at in shown.dimmed_keys)
        share = mapping.share_of(shown.weights, shown.dimmed_keys)
        hides = "their columns" if shown.noun else f"{share:.2f} of the attention in this map"
        hidden = f" · dimming {' and '.join(labels)} hides {hides}"
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.markdown(f"**{shown.name}**{hidden}", width="content")
        if url_state.get(AttentionSettings.display) != "against":
            cells_control()
        _draw_way_inside(view, choice)
        layer, head = choice.cell
        if layer is not None and head is not None:
            key = "by_touch_switch" if choice.display == "grid" else None  # a mouse has the grid's
            with st.container(key=key, width="content"):
                offer_switch(view, get_trace(view), choice.kind, layer, head)


def offer(
    view: View, choice: AttentionChoice, maps: Maps, key: str = "attention", label: str = "Download"
) -> None:
    """Draw the display's download button, unless no head is chosen."""
    n_layers, n_heads, n, m = maps.weights.shape
    n_maps = {"grid": n_layers * n_heads, "heads": len(choice.heads), "matrix": 1}[choice.display]
    if n_maps:
        download_button(
            lambda: attention_exhibit(trace_for(view), choice, source_of(view)),
            key=key, name=stem(choice, maps), n_numbers=n_maps * n * m, label=label,
        )  # fmt: skip
