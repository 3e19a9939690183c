"""Edits on the Attention page: heads by their switches, edges by cells, words of the sentence."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import product

import streamlit as st

from figures.labels import code, plain, plain_token
from transformer.edits.language import PLACES, Edit, Where, heads_off, parse_edits
from transformer.measures.words import group_labels, word_groups
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, Bools
from ui.attention.choice import AttentionSettings
from ui.attention.maps import AttentionChoice, Maps, kinds_of
from ui.components.grid import Cell, switched
from ui.components.mount import show
from ui.components.packing import fits
from ui.components.strip import strip_component
from ui.core import url_state, widgets
from ui.core.doubts import headline
from ui.core.view import View
from ui.frame.changes import draw_changes, said_of_changes
from ui.frame.editing import offer, restore_heads, switch
from ui.work.desk import get_trace


def draw_hint(view: View, trace: Trace, name: str) -> None:
    """Draw a display's hint, or the effect of edits."""
    edits = parse_edits(view.entry.ref.edits)
    if not edits:
        widgets.draw_hint("switches" if name == "grid" and view.kind == "checkpoint" else name)
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(said_of_changes(view, trace, get_trace(view.original)), width="content")
        if any(edit.silences for edit in edits):
            st.button("Restore all", key="restore_heads", type="tertiary", on_click=restore_heads,
                      icon=":material/restart_alt:", help="Bring all heads back.")  # fmt: skip


def draw_texts(view: View, trace: Trace) -> None:
    """Draw the sentence, whose words can be hidden, and its translation."""
    one, other = st.columns(2, gap="medium")
    with one:
        word = _draw_source(trace, parse_edits(view.entry.ref.edits))
    words = headline(trace).split() or ["(empty)"]
    with other:
        show(strip_component(words, (), label="Translation", lead="→"), key="translation")
    if word:
        _offer_hiding(trace, word)


def draw_effect(view: View, trace: Trace) -> None:
    """Draw the effect of edits by token; below the picture, which a switch must not move."""
    if view.entry.ref.edits:
        draw_changes(view, trace, get_trace(view.original))


def _draw_source(trace: Trace, edits: Collection[Edit]) -> tuple[int, ...]:
    """Draw the sentence word by word; return the chosen word's piece positions, or ()."""
    tokens, words = trace.src_tokens, word_groups(trace.src_tokens, trace.src_special)
    ordinary = set(tokens) - {tokens[at] for at in trace.src_special}
    if all(len(token.strip("▁")) <= 1 for token in ordinary):
        words = tuple((at,) for at in range(len(tokens)))  # a string of letters is no word
    chosen = url_state.index(AttentionSettings.source_word, len(words))
    hidden = [at for at, word in enumerate(words) if set(_hides("cross", word)) <= set(edits)]
    line = strip_component(
        group_labels(tokens, words), (), label="Sentence: choose a word to hide it",
        asks=True, pressed=chosen, struck=hidden,
    )  # fmt: skip
    show(line, key="sentence", on_word_change=partial(_take_word, len(words), chosen))
    return () if chosen is None else words[chosen]


def _take_word(count: int, chosen: int | None) -> None:
    at = st.session_state["sentence"].get("word")
    if fits(at, range(count)):
        url_state.put_index(AttentionSettings.source_word, None if at == chosen else at)


def _hides(where: Where, word: Sequence[int]) -> list[Edit]:
    return [Edit("cut", where, key=key) for key in word]


def _offer_hiding(trace: Trace, word: Sequence[int]) -> None:
    """Offer to hide all tokens of a source word from the decoder, and from the encoder."""
    (name,) = group_labels([trace.src_tokens[at] for at in word], (tuple(range(len(word))),))
    decoder, encoder = _hides("cross", word), _hides("encoder", word)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="hiding"):
        st.markdown(code(name, 24), width="content")
        offer(
            "Hide this word from the decoder", "Show this word to the decoder again", decoder,
            key="hide_decoder", help="No step of the translation can look at it.",
        )  # fmt: skip
        offer(
            "Hide it from the encoder too", "Show it to both again", [*decoder, *encoder],
            key="hide_both", help="No other source word can look at it either.",
        )  # fmt: skip


def heads_out(view: View, trace: Trace) -> dict[str, Bools] | None:
    """Return the heads that are out by kind, or None if the model takes no edits."""
    if view.kind != "checkpoint":
        return None
    edits = parse_edits(view.entry.ref.edits)
    return {
        kind: heads_off(edits, kind, trace.attention(kind).shape[:2]) for kind in kinds_of(trace)
    }


def take_switch(off: Mapping[str, Bools]) -> None:
    """Take heads out, or bring them back, as the grid reports. A callback."""
    if report := switched(st.session_state["grid"].get("switch"), off):
        kind = next(kind for kind in ATTENTION_KINDS if kind == report.tab)
        switch(kind, report.heads, join=report.join)


def offer_cut(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Offer to cut the edge between the chosen query and key, in the map's heads and in all."""
    queries, keys = maps.units(choice)
    if view.kind != "checkpoint" or len(queries) != 1 or len(keys) != 1:
        return
    edges = [
        (query, key)
        for query, key in product(*maps.pieces(queries, keys))
        if key <= query or not maps.causal
    ]
    if not edges:
        return
    edge = " to ".join(
        plain(plain_token(label)) for label in (maps.queries[queries[0]], maps.keys[keys[0]])
    )
    with st.container(key="cut_edge", gap=None):
        for at, (place, cells) in enumerate(_places(choice, maps.weights.shape[0]).items()):
            edits = [
                Edit("cut", PLACES[choice.kind], *cell, query=query, key=key)
                for cell in cells
                for query, key in edges
            ]
            offer(
                f"Cut this edge, {edge}: {place}", f"Restore this edge, {edge}: {place}", edits,
                key=f"cut_{at}", help="The query can no longer look at the key.",
            )  # fmt: skip


def _places(choice: AttentionChoice, n_layers: int) -> dict[str, Sequence[Cell]]:
    """Return the heads of the map on screen, and all heads, by name."""
    everywhere: dict[str, Sequence[Cell]] = {"all heads": [(None, None)]}
    if choice.chosen:
        return {"the chosen heads": choice.heads, **everywhere}
    layer, head = choice.cell
    if layer is None:
        column = {} if head is None else {
            f"head {head + 1} of all layers": [(at, head) for at in range(n_layers)]
        }  # fmt: skip
        return {**column, **everywhere}
    name = f"layer {layer + 1}" + ("" if head is None else f", head {head + 1}")
    return {name: [choice.cell], **everywhere}
