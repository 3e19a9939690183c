"""The edits of the model on screen: a bar above every page, and the box in which they are typed.

The view's model is the edited one, so that every page shows it; see `transformer.edits`. Edits
stand in the link in the order in which they were made, and stay through changes of page, sentence
and model. A model that cannot take one is shown without it, and a line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from figures.labels import plain
from transformer.catalogue import Entry
from transformer.checkpoint.means import read_means
from transformer.edits.language import (
    KINDS,
    MAX_EDITS,
    MAX_LENGTH,
    Edit,
    parse_edit,
    parse_edits,
    text_of,
)
from transformer.errors import InputError
from transformer.trace.tracer import NO_EDITS
from transformer.types import AttentionKind
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.frame.steering import drop_ids

EDITS: Param[str] = Param("edit", url_state.text(MAX_EDITS * MAX_LENGTH), "")

#: The setting of Compare that says what is compared.
PAIRING: Param[str] = Param("pairing", str, "")

_REFUSED = "headlight_edit_refused"

#: Examples beside the box, each with what it does.
EXAMPLES = {
    "off cross.3.5": "take head 5 of layer 3 out of cross-attention",
    "uniform cross": "let cross-attention look at every word alike",
    "cut cross k2": "hide the second source token from the decoder",
    "ffn off decoder.2": "take a feed-forward network out",
    "skip decoder.2": "skip a layer: it passes its input on unchanged",
    "no positions": "hide the order of the words (no positions)",
}


def edited(entry: Entry) -> Entry:
    """Return the entry of the edited model; edits that it cannot take are dropped with a line."""
    chosen = _chosen()
    if not chosen:
        return entry
    kept: list[Edit] = []
    dropped = ""
    for edit in chosen:
        try:
            if entry.kind != "checkpoint" or entry.config is None:
                raise InputError(f"“{edit}”: {NO_EDITS.get(entry.kind, 'the model has no parts')}")
            edit.check(entry.config)
            if edit.verb == "mean":
                read_means(entry.ref, entry.config)
            parse_edits([*kept, edit])
            kept.append(edit)
        except InputError as error:
            dropped = str(error)
    if dropped:
        st.toast(f"Left out: {plain(dropped.removesuffix('.'))}.", icon=":material/info:")
        _put(kept)
    return replace(entry, ref=entry.ref.edited(text_of(parse_edits(kept)))) if kept else entry


def draw_bar(view: View) -> None:
    """Draw the bar above the page, if the model is edited."""
    if not view.entry.ref.edits:
        return
    chosen = _chosen()
    with st.container(key="edits", horizontal=True, vertical_alignment="center", border=True):
        st.markdown(f"**Edited:** {plain('; '.join(each.words for each in chosen))}")
        st.button("Undo", key="undo_edit", type="tertiary", icon=":material/undo:",
                  on_click=_put, args=(chosen[:-1],))  # fmt: skip
        st.page_link(
            "pages/compare_page.py", label="Compare with the original",
            icon=":material/compare_arrows:", query_params=url_state.query({PAIRING: "edits"}),
        )  # fmt: skip
        st.button("Clear", key="clear_edits", type="tertiary", icon=":material/close:",
                  on_click=_put, args=((),))  # fmt: skip


def draw_box(entry: Entry) -> None:
    """Draw the popover in which edits are typed, or why a model cannot take them."""
    if entry.kind != "checkpoint":
        if reason := NO_EDITS.get(entry.kind):
            st.caption(f":material/content_cut: No part can be taken out. {reason}")
        return
    with st.popover("Take parts out", icon=":material/content_cut:", type="tertiary"):
        st.caption(
            "What does a part do? Take it out, and see what changes on every page. Layers, heads "
            "and tokens count from 1."
        )
        for text, what in EXAMPLES.items():
            st.button(f"`{text}` {what}", key=f"edit {text}", type="tertiary", on_click=add,
                      args=(text,))  # fmt: skip
        st.text_input("Or type an edit", key="edit_box", max_chars=MAX_LENGTH, on_change=_typed,
                      placeholder="scale decoder.1 0.5")  # fmt: skip
        if refused := st.session_state.pop(_REFUSED, ""):
            st.error(plain(refused))


def add(text: str) -> None:
    """Add an edit; a bad one is said beside the box in the next run."""
    chosen = _chosen()
    try:
        edit = parse_edit(text)
        parse_edits([*chosen, edit])
    except InputError as error:
        st.session_state[_REFUSED] = str(error)
        return
    if edit not in chosen:
        _put([*chosen, edit])


def toggle(edit: Edit) -> None:
    """Take a part out, or bring it back."""
    chosen = _chosen()
    _put([each for each in chosen if each != edit] if edit in chosen else [*chosen, edit])


def offer_switch(view: View, kind: AttentionKind, layer: int, head: int) -> None:
    """Draw the button that takes a head out, or brings it back; in a fragment or not."""
    if view.kind != "checkpoint":
        return
    where = next(name for name, each in KINDS.items() if each == kind)
    edit = Edit("off", where, layer, head)
    out = edit in _chosen()
    if st.button(
        "Bring this head back" if out else "Take this head out", key="edit_switch",
        type="tertiary", icon=":material/undo:" if out else ":material/content_cut:",
        help=f"Translate {'with' if out else 'without'} {edit.place}, on every page.",
    ):  # fmt: skip
        toggle(edit)
        st.rerun()


def _typed() -> None:
    if text := st.session_state["edit_box"].strip():
        add(text)
        if _REFUSED not in st.session_state:
            st.session_state["edit_box"] = ""


def _chosen() -> list[Edit]:
    """Return the edits of the link in their order, without those that are no edits."""
    found = []
    url_state.show(EDITS)
    for text in url_state.get(EDITS).split(";"):
        if text.strip():
            try:
                found.append(parse_edit(text.strip()))
            except InputError as error:
                st.toast(f"Left out: {plain(str(error))}.", icon=":material/info:")
    return list(dict.fromkeys(found))


def _put(edits: Sequence[Edit]) -> None:
    url_state.put(EDITS, text_of(edits))
    drop_ids()
