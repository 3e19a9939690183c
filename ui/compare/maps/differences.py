"""The differences of all heads at once with the chosen one large, or the entropy of every head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st

from figures.attention import head_table
from figures.exhibit import Exhibit, Offline, Panel, file_stem
from figures.markdown import plain
from transformer.measures.compare import difference
from transformer.measures.entropy import EVENNESS_RULE, evenness
from ui.attention.choice import AttentionChoice
from ui.attention.exhibits import MOST_FOLLOWING
from ui.attention.maps import KIND_TEXTS, Maps, dimmed_columns, maps_of
from ui.compare.choice import choose_left, join_cells
from ui.compare.maps.exhibits import Wanted, caption_of, start_of_program
from ui.compare.maps.pairing import changed_places, difference_map
from ui.compare.maps.views import Both, difference_words, say_unpaired
from ui.compare.sides import LETTERS, Download
from ui.components.grid import Cell, Sheet, still_grid
from ui.components.grid.mount import attention_grid
from ui.components.grid.signed import difference_sheet
from ui.components.lens import still_lens
from ui.components.lens.mount import attention_lens
from ui.core.layout import sized
from ui.core.theme import current_theme
from ui.export.download import trace_for
from ui.work.results import once


def draw_differences(both: Both) -> None:
    """Draw the grid and the chosen difference; if maps cannot be subtracted, why, and entropies."""
    if not both.fit.units:
        say_unpaired(both)
        _draw_spreads(both)
        return
    choices = joined_choices(both.maps, both.choices)
    shown = difference_map(*both.maps, choices)
    grid, lens = st.columns([0.52, 0.48], gap="large")
    with grid.container():
        attention_grid(
            _get_sheet(both), chosen=choices[0].cell, on_choose=_choose,
            key="compare_differences", cell_width=76,
        )  # fmt: skip
    with lens.container():
        st.markdown(f"**{plain(shown.name)}**")
        attention_lens(shown, key="compare_difference", max_height=400)
        for line in difference_words(replace(both, choices=choices), shown)[:2]:
            st.markdown(line)
    for said in (without_partner(*both.maps), both.fit.why, changed_places(*both.maps)):
        if said:
            st.caption(said)


def differences_download(both: Both) -> Download:
    """The download of what is on screen."""
    # Not `both`: its traces would stay in memory as long as the page is open.
    wanted = Wanted(both.setup, both.kind, "differences", both.choices)
    if both.fit.units:
        count = sum(maps.weights.size for maps in both.maps)
        return Download(partial(differences_exhibit, wanted), wanted.stem, count)
    return Download(partial(spreads_exhibit, wanted), _spreads_stem(wanted))


def joined_choices(
    maps: tuple[Maps, Maps], choices: tuple[AttentionChoice, AttentionChoice]
) -> tuple[AttentionChoice, AttentionChoice]:
    """Return A's cell for both sides, combined over a layer or head that B lacks."""
    counts = [min(pair) for pair in zip(*(each.weights.shape[:2] for each in maps), strict=True)]
    layer, head = (
        at if at is not None and at < count else None
        for at, count in zip(choices[0].cell, counts, strict=True)
    )
    return replace(choices[0], cell=(layer, head)), replace(choices[1], cell=(layer, head))


def without_partner(left: Maps, right: Maps) -> str:
    """Say which heads have no cell, in one sentence; "" if both sides have equally many."""
    shapes = [maps.weights.shape[:2] for maps in (left, right)]
    if shapes[0] == shapes[1]:
        return ""
    sizes = " and ".join(
        f"{letter} {layers} layer{'' if layers == 1 else 's'} of {heads}"
        for letter, (layers, heads) in zip(LETTERS, shapes, strict=True)
    )
    return (
        f"{sizes} heads: those that only one side has, have no cell, but count in its combined "
        "row and column."
    )


def sheet_of(maps: tuple[Maps, Maps], choice: AttentionChoice) -> Sheet:
    """The grid of A - B."""
    shown = difference_map(*maps, (choice, choice))
    assert shown.signed is not None
    return difference_sheet(
        maps[0].weights, maps[1].weights, shown.query_tokens, shown.key_tokens,
        label=f"A − B: {maps[0].kind_text.name}, all layers and heads", ends=shown.signed,
        how=choice.how, dimmed_keys=dimmed_columns(maps[0], choice),
    )  # fmt: skip


def _choose(cell: Cell) -> None:
    choose_left(cell)
    join_cells()


def _get_sheet(both: Both) -> Sheet:
    """The grid, made once for every session."""
    choice = both.choices[0]
    requests = tuple(view.request for view in both.views)
    key = ("differences", requests, choice.kind, choice.units, choice.how, choice.dim)
    return once(key, lambda: sheet_of(both.maps, replace(choice, cell=(None, None))))


def _draw_spreads(both: Both) -> None:
    """Every head's entropy, side by side."""
    for side, column in enumerate(st.columns(2, gap="large")):
        with column.container():
            st.markdown(f"**{LETTERS[side]}** · how evenly each head looks")
            spread = evenness(both.maps[side].weights)
            layer, head = np.unravel_index(int(spread.argmin()), spread.shape)
            st.altair_chart(
                sized(head_table(spread.astype("f4"), current_theme(), what="share of entropy")),
                theme=None,
                alt=f"{LETTERS[side]}: share of the largest possible entropy of every head; the "
                f"least, {spread.min():.2f}, in layer {layer + 1}, head {head + 1}.",
            )
    st.caption(EVENNESS_RULE)


def _found(wanted: Wanted) -> tuple[Maps, Maps]:
    left, right = (
        maps_of(trace_for(view), wanted.kind, choice.units)
        for view, choice in zip(
            (wanted.setup.left, wanted.setup.right), wanted.choices, strict=True
        )
    )
    return left, right


def differences_exhibit(wanted: Wanted) -> Exhibit:
    """The differences of all heads that both sides have. Needs no session."""
    maps = _found(wanted)
    choices = joined_choices(maps, wanted.choices)
    layers, heads = (
        min(pair) for pair in zip(*(each.weights.shape[:2] for each in maps), strict=True)
    )
    one, other = (each.weights[:layers, :heads] for each in maps)
    shown = difference_map(*maps, choices)
    apart = difference(one, other)
    parts = tuple(
        Panel(
            f"A − B {layer + 1}.{head + 1}", apart[layer, head], tuple(shown.query_tokens),
            tuple(shown.key_tokens), f"query: {shown.query_title}", f"key: {shown.key_title}",
            "diverging",
        )
        for layer in range(layers)
        for head in range(heads)
    )  # fmt: skip
    grid = still_grid(sheet_of(maps, choices[0]), choices[0].cell)
    lens = Offline("lens", still_lens(shown), _lenses(maps, choices, (layers, heads)))
    return Exhibit(
        name=wanted.stem,
        title=f"{maps[0].kind_text.name}: A − B for every layer and head",
        caption=caption_of(wanted),
        parts=parts,
        arrays={
            "maps_a": maps[0].weights, "maps_b": maps[1].weights, "difference": apart,
        },
        snippet=start_of_program(wanted)
        + f"difference = maps_a[:{layers}, :{heads}] - maps_b[:{layers}, :{heads}]\n",
        offline=(Offline("grid", grid), lens),
        columns=heads,
    )  # fmt: skip


def _lenses(
    maps: tuple[Maps, Maps],
    choices: tuple[AttentionChoice, AttentionChoice],
    counts: tuple[int, int],
) -> Mapping[str, bytes]:
    """The lens of each cell; empty if that would make a large file."""
    if maps[0].weights.size > MOST_FOLLOWING:
        return {}
    found = {}
    for layer in (*range(counts[0]), None):
        for head in (*range(counts[1]), None):
            at = tuple(replace(choice, cell=(layer, head)) for choice in choices)
            name = json.dumps([layer, head], separators=(",", ":"))
            found[name] = still_lens(difference_map(*maps, (at[0], at[1])))
    return found


def _spreads_stem(wanted: Wanted) -> str:
    return file_stem("compare", KIND_TEXTS[wanted.kind].name, "entropies")


def spreads_exhibit(wanted: Wanted) -> Exhibit:
    """How evenly every head of both sides looks. Needs no session."""
    maps = _found(wanted)
    spreads = [evenness(each.weights).astype("f4") for each in maps]
    parts = tuple(
        Panel(
            letter, spread, tuple(str(i + 1) for i in range(len(spread))),
            tuple(str(i + 1) for i in range(spread.shape[1])), "layer", "head",
        )
        for letter, spread in zip(LETTERS, spreads, strict=True)
    )  # fmt: skip
    program = start_of_program(wanted, "from transformer.measures.entropy import evenness")
    program += "spread_a, spread_b = evenness(maps_a), evenness(maps_b)\n"
    return Exhibit(
        name=_spreads_stem(wanted),
        title=f"{maps[0].kind_text.name}: how evenly each head looks",
        caption=f"{caption_of(wanted)} {EVENNESS_RULE}",
        parts=parts,
        arrays={"spread_a": spreads[0], "spread_b": spreads[1]},
        snippet=program,
        columns=2,
    )
