"""Find heads by where they look: all of them ranked by their share of attention on a pattern."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import plain_token
from transformer.measures.heads import (
    Head,
    Pattern,
    even_share,
    pattern_mask,
    pattern_share,
    ranked,
)
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Bools
from ui.attention.choice import (
    AttentionSettings,
    choose_cell,
    choose_heads,
    choose_selection,
    get_maps,
    take_kind,
)
from ui.attention.maps import AttentionChoice, Maps, kind_text_of, kinds_of, to_pieces, to_units
from ui.core import url_state
from ui.core.view import View
from ui.core.widgets import bound, fill

_MOST = 10  # heads listed

#: Each pattern's name; they follow "Heads that look at".
NAMES: dict[Pattern, str] = {
    "previous": "the previous token",
    "next": "the next token",
    "itself": "the token itself",
    "first": "the first token",
    "end": "the end token, `</s>`",
    "diagonal": "the diagonal",
    "pair": "a chosen token from a chosen token",
}

_SIDES = ("query", "key")


def draw_find(view: View, trace: Trace, choice: AttentionChoice) -> None:
    """Draw the pattern, the parts to search and the ranking, above the map that it opens."""
    pattern = next(each for each in NAMES if each == url_state.get(AttentionSettings.find))
    row = st.container(horizontal=True, vertical_alignment="bottom")
    row.selectbox(
        "Heads that look at", list(NAMES), **bound(AttentionSettings.find),
        format_func=lambda each: NAMES[each].replace("`", ""), width=280,
        help="Heads are ranked by the weight on these keys, averaged over the rows that have one. "
        "Rows that see a single key are left out. The diagonal is the line from the first query "
        "and key to the last ones, and one key to either side.",
    )  # fmt: skip
    if pattern == "pair":
        kinds: tuple[AttentionKind, ...] = (choice.kind,)  # tokens are of this kind's axes
        _draw_tokens(get_maps(view, trace, choice), choice, row)
    else:
        with row:
            kinds = _draw_kinds(trace, choice, pattern)
    found: list[tuple[float, AttentionKind, Head]] = []
    notes = []
    for kind in kinds:
        maps = get_maps(view, trace, replace(choice, kind=kind))
        name = kind_text_of(trace, kind).short or kind_text_of(trace, kind).name
        mask = _mask(pattern, kind, maps, choice)
        shares = pattern_share(maps.weights, mask, causal=maps.causal)
        if shares is None:
            notes.append(f"{name}: {_why(pattern, kind)}")
            continue
        even = even_share(mask, causal=maps.causal)
        notes.append(f"{name}: an even spread would give {even:.2f}.")
        found += [(share, kind, head) for head, share in ranked(shares)[:_MOST]]
    row.caption("  \n".join(["Weight · layer.head", *notes]))
    found.sort(key=lambda each: -each[0])
    with st.container(horizontal=True, gap="small"):
        for share, kind, head in found[:_MOST]:
            part = f"{kind_text_of(trace, kind).short} " if len(kinds) > 1 else ""
            st.button(
                f"**{share:.2f}** · {part}{head[0] + 1}.{head[1] + 1}",
                key=f"find_{kind}_{head[0]}_{head[1]}", type="tertiary", on_click=open_head,
                args=(kind, head, choice.display),
            )  # fmt: skip


def open_head(kind: AttentionKind, head: Head, display: str) -> None:
    """Show a head, in the display that is open."""
    take_kind(kind)
    choose_cell(head)
    if display == "heads":
        choose_heads((head,))


def _draw_kinds(
    trace: Trace, choice: AttentionChoice, pattern: Pattern
) -> tuple[AttentionKind, ...]:
    """Draw the parts to search if there are several; by default the one on screen.

    Where that one cannot have the pattern, the parts that can.
    """
    kinds = kinds_of(trace)
    wanted = url_state.get(AttentionSettings.find_in)
    can = tuple(kind for kind in kinds if _can(pattern, kind))
    default = (choice.kind,) if choice.kind in can or not can else can
    chosen = tuple(kind for kind in kinds if kind in (wanted or ())) or default
    if len(kinds) == 1:
        return chosen
    fill("find_in_widget", list(chosen))
    st.pills(
        "In", kinds, selection_mode="multi", key="find_in_widget", on_change=_take_kinds,
        format_func={kind: kind_text_of(trace, kind).short for kind in kinds}.__getitem__,
    )  # fmt: skip
    return chosen


def _take_kinds() -> None:
    url_state.put(AttentionSettings.find_in, tuple(st.session_state["find_in_widget"]))


def _draw_tokens(maps: Maps, choice: AttentionChoice, where: DeltaGenerator) -> None:
    """Draw the two lists of a pair; the choice is the one that the matrix adds up."""
    chosen = _pair(maps, choice)
    for side, labels, at in zip(_SIDES, (maps.queries, maps.keys), chosen, strict=True):
        named = [f"{i + 1} {plain_token(label)}" for i, label in enumerate(labels)]
        fill(f"find_{side}_box", named[at])
        where.selectbox(
            "From the query" if side == "query" else "to the key", named, key=f"find_{side}_box",
            on_change=_take_pair, args=(maps,), width=200,
        )  # fmt: skip


def _take_pair(maps: Maps) -> None:
    at = [int(st.session_state[f"find_{side}_box"].split(" ", 1)[0]) - 1 for side in _SIDES]
    choose_selection((to_pieces((at[0],), maps.query_groups), to_pieces((at[1],), maps.key_groups)))


def _pair(maps: Maps, choice: AttentionChoice) -> tuple[int, int]:
    """Return the first chosen query and key, as units; else the last query and the first key."""
    queries = to_units(choice.queries, maps.query_groups) or (len(maps.queries) - 1,)
    keys = to_units(choice.keys, maps.key_groups) or (0,)
    return queries[0], keys[0]


def _mask(pattern: Pattern, kind: AttentionKind, maps: Maps, choice: AttentionChoice) -> Bools:
    query, key = _pair(maps, choice) if pattern == "pair" else (0, 0)
    return pattern_mask(
        pattern, len(maps.queries), len(maps.keys), same=kind != "cross", causal=maps.causal,
        special=maps.special, queries=(query,), keys=(key,),
    )  # fmt: skip


def _can(pattern: Pattern, kind: AttentionKind) -> bool:
    """Return whether a map of this kind can have the pattern, whatever the text."""
    if kind == "cross":
        return pattern not in ("previous", "next", "itself")
    return not (pattern == "next" and kind == "decoder_self")


def _why(pattern: Pattern, kind: AttentionKind) -> str:
    """Return why no row of this kind has the pattern."""
    if kind == "cross" and not _can(pattern, kind):
        return "queries and keys are tokens of two texts."
    if not _can(pattern, kind):
        return "impossible, the next token is masked."
    if pattern == "end":
        return "there is no such token among the keys."
    if pattern == "pair":
        return "the key is masked, or the only one that this query sees."
    return "the text is too short."
