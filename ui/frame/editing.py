"""Edits of the model: a bar above every page, the box for typing edits, and what they change.

The view's model is the edited one, so that every page shows it (see `transformer.edits`). Links
list edits in order, with commas within a step and semicolons between steps. Edits survive changes
of page, sentence and model. A model that cannot take an edit is shown without it, with a message.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import streamlit as st

from figures.labels import count, plain, plain_token, query_labels, shorten
from transformer.checkpoint.folder import read_means
from transformer.edits import language
from transformer.edits.language import Edit, heads_off
from transformer.measures.compare import SideBySide, Word, side_by_side
from transformer.models.catalogue import Entry
from transformer.search.request import excluded
from transformer.trace.records import Trace
from transformer.trace.removals import Head, log_probs
from transformer.trace.tracer import NO_EDITS
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats, InputError
from ui.components.mount import show
from ui.components.strip import Column, beside_component
from ui.core import url_state
from ui.core.doubts import first_words
from ui.core.glossary import linked
from ui.core.url_state import LAYER, Param
from ui.core.view import Request, View
from ui.frame.page import link_to
from ui.frame.steering import drop_ids
from ui.work.desk import computed, get_trace
from ui.work.results import Computation
from ui.work.results import trace as trace_of

#: Changes of a whole translation below this, in nats, count as none.
_NONE = 0.005


def changes_of(view: View) -> Computation[Floats]:
    """Return the computation of the tokens' log-probability changes, [T] in nats.

    The edited model reads the original's translation in one pass (teacher forcing).
    """
    request = view.original.request

    def make(translator: Translator, _: Trace) -> Floats:
        whole = trace_of(request)
        return (
            log_probs(translator.model, whole, excluded=excluded(translator.config))
            - whole.log_probs
        )

    return Computation("changes", request, make)


def first_of_changes(view: View) -> list[Computation[Any] | Request]:
    """Return the computations for `draw_changes`, empty without edits."""
    return [view.original.request, changes_of(view)] if view.entry.ref.edits else []


def draw_changes(view: View, trace: Trace, whole: Trace) -> None:
    """Draw the original translation with each token's change, and the edited translation."""
    pair, changes = side_by_side(whole, trace), computed(view, changes_of(view))
    words = [*_without_loops(pair, trace, whole)]
    columns = [
        Column(
            [whole.predicted_tokens[at] for at in old.tokens],
            [float(whole.log_probs[at]) for at in old.tokens],
            [float(changes[at]) for at in old.tokens],
            new.text,
            old.text != new.text,
        )
        for old, new in words
    ]
    total = float(changes.sum(dtype=np.float64))
    show(beside_component(columns, total), key="changes")
    step = plain_token(query_labels(whole, "decoder_self")[int(np.abs(changes).argmax())])
    st.caption(f"Most changed: the step {plain(step)}. Its new token may end the word before.")


def _without_loops(pair: SideBySide, trace: Trace, whole: Trace) -> Iterator[tuple[Word, Word]]:
    """Yield pairs of words, without the repetitions of a final loop."""
    left = [
        first_words(each, [words[side].text for words in pair.pairs if words[side].tokens])
        for side, each in enumerate((whole, trace))
    ]
    for words in pair.pairs:
        here = [bool(word.tokens) for word in words]
        if any(each and n > 0 for each, n in zip(here, left, strict=True)):
            yield words
        left = [n - each for each, n in zip(here, left, strict=True)]
    if min(left) < 0:
        yield Word(), Word("…")


def said_of_changes(view: View, trace: Trace, whole: Trace) -> str:
    """Describe the effect of the edits in Markdown."""
    total = float(computed(view, changes_of(view)).sum(dtype=np.float64))
    return linked(divergence(side_by_side(whole, trace), total), "nats")


def divergence(pair: SideBySide, total: float) -> str:
    """Describe where two translations diverge and how likely the original's words are now."""
    size = f"{abs(total):.{1 if abs(total) >= 0.095 else 2}f} nats"
    change = f"{size} {'less' if total < 0 else 'more'} likely"
    if abs(total) < _NONE:
        change = "just as likely"
    at = pair.parts_at
    if at is None:
        what = "Nothing" if abs(total) < _NONE else "No word"
        return f"{what} changed: the words are {change}."
    # A comma that moved to the word before says less than the word that is gone.
    said = [{"".join(filter(str.isalnum, word.text)) for word in words} for words in pair.pairs]
    at = next((n for n in range(at, len(said)) if len(said[n]) > 1), at)
    old, new = pair.pairs[at]
    return (
        f"The translations diverge at {pair.unit} {at + 1}: {_becomes(old, new)}. The original’s "
        f"words are {change}."
    )


def _becomes(old: Word, new: Word) -> str:
    def emphasised(word: Word) -> str:
        return f"*{plain(shorten(word.text, 24))}*"

    if not old.text:
        return f"{emphasised(new)} is added"
    return (
        f"{emphasised(old)} becomes {emphasised(new)}" if new.text else f"{emphasised(old)} is gone"
    )


EDITS: Param[str] = Param("edit", url_state.text(language.MAX_EDITS * language.MAX_LENGTH), "")

#: What Compare compares.
PAIRING: Param[str] = Param("pairing", str, "")

_REFUSED = "headlight_edit_refused"
#: Session key: edits that the next `switch(join=True)` extends.
_JOINED = "headlight_edits_joined"

#: Examples below the box, with descriptions.
EXAMPLES = {
    "off cross.3.5": "remove head 5 of layer 3 from cross-attention",
    "uniform cross": "let cross-attention look at all words equally",
    "cut cross k2": "hide the second source token from the decoder",
    "ffn off decoder.2": "remove a feed-forward network",
    "skip decoder.2": "skip a layer: it passes its input on unchanged",
    "no positions": "hide the order of the words (no positions)",
}


def _edited(entry: Entry) -> Entry:
    """Return the edited model's entry; edits that it cannot take are dropped with a message."""
    steps: list[list[Edit]] = []
    dropped: list[str] = []
    url_state.show(EDITS)
    if not url_state.stored(EDITS):
        return entry
    for step in _texts():
        steps.append([])
        for text in step:
            try:
                edit = _taken(text, entry)
                before = [*chain(*steps)]
                language.parse_edits([*before, edit])
                steps[-1] += [edit] * (edit not in before)
            except InputError as error:
                dropped.append(str(error).removesuffix("."))
    if dropped:
        more = f" And {count(len(dropped) - 1, 'other')}." if len(dropped) > 1 else ""
        st.toast(f"Left out: {plain(dropped[0])}.{more}", icon=":material/info:")
        _put(steps)
    edits = language.text_of(language.parse_edits(chain(*steps)))
    return replace(entry, ref=entry.ref.edited(edits)) if edits else entry


def _taken(text: str, entry: Entry) -> Edit:
    edit = language.parse_edit(text)
    if entry.kind != "checkpoint" or entry.config is None:
        raise InputError(f"“{edit}”: {NO_EDITS.get(entry.kind, 'the model has no parts')}")
    edit.check(entry.config)
    if edit.verb == "mean":
        read_means(entry.ref, entry.config)
    return edit


def draw_bar(view: View) -> None:
    """Draw the bar of an edited model."""
    steps, words = _steps(), "; ".join(language.in_words(_chosen()))
    words = re.sub(r" layer (\d+), head (?=\d)", r" \1.", words)
    if any(edit.verb == "cut" for edit in _chosen()):
        words = named(words, get_trace(view.original))
    with st.container(key="edits", horizontal=True, vertical_alignment="center", border=True):
        st.markdown(f"**Edited:** {plain(words)}")
        st.button("Undo", key="undo_edit", type="tertiary", icon=":material/undo:",
                  on_click=_put, args=(steps[:-1],))  # fmt: skip
        link_to(
            "compare", "Compare with the original", ":material/compare_arrows:",
            {PAIRING: "edits"},
        )  # fmt: skip
        st.button("Clear", key="clear_edits", type="tertiary", icon=":material/close:",
                  on_click=_put, args=((),))  # fmt: skip


def draw_box(entry: Entry) -> Entry:
    """Draw the popover for typing edits, or say why the model takes none; return it edited."""
    edited = _edited(entry)
    if entry.kind != "checkpoint":
        if reason := NO_EDITS.get(entry.kind):
            st.caption(f":material/content_cut: Parts of this model cannot be taken out. {reason}")
        return edited
    with st.popover("Take parts out", icon=":material/content_cut:", type="tertiary"):
        st.caption(
            "What does a part do? Take it out, and see what changes on every page. Layers, heads "
            "and tokens count from 1."
        )
        for text, what in EXAMPLES.items():
            st.button(f"`{text}` {what}", key=f"edit {text}", type="tertiary", on_click=add,
                      args=(text,))  # fmt: skip
        st.text_input("Or type an edit", key="edit_box", max_chars=language.MAX_LENGTH,
                      on_change=_typed, placeholder="scale decoder.1 0.5")  # fmt: skip
        if refused := st.session_state.pop(_REFUSED, ""):
            st.error(plain(refused))
    return edited


def add(text: str) -> None:
    """Add an edit; the next run shows an error for an invalid one."""
    chosen = _chosen()
    try:
        edit = language.parse_edit(text)
        language.parse_edits([*chosen, edit])
    except InputError as error:
        st.session_state[_REFUSED] = str(error)
        return
    if edit not in chosen:
        _put([*_steps(), [edit]])


def toggle(*edits: Edit) -> None:
    """Make edits in one step, or undo them if all are in effect."""
    chosen = _chosen()
    if set(edits) <= set(chosen):
        _put([[edit for edit in step if edit not in edits] for step in _steps()])
    else:
        _put([*_steps(), [edit for edit in edits if edit not in chosen]])


def take_out(edits: Sequence[Edit]) -> None:
    """Replace all edits by these, as one step."""
    _put([edits])


def head_of(trace: Trace, kind: AttentionKind, layer: int, head: int) -> Bools:
    """Return a mask [L, H] of a kind's heads, True for one head."""
    heads = np.zeros(trace.attention(kind).shape[:2], np.bool_)
    heads[layer, head] = True
    return heads


def off_now(kind: AttentionKind, heads: Bools) -> bool:
    """Return True if all heads in a mask [L, H] are removed."""
    return not (heads & ~heads_off(_chosen(), kind, heads.shape)).any()


def switch(kind: AttentionKind, heads: Bools, *, join: bool = False) -> None:
    """Remove the heads in a mask [L, H] in one step, or restore them if all are removed.

    Args: join: adds them to the step of the last call with `join`.
    """
    steps = _steps()
    if off_now(kind, heads):
        steps = [[left for edit in step for left in _without(edit, kind, heads)] for step in steps]
    else:
        new = language.off_edits(kind, heads & ~heads_off(chain(*steps), kind, heads.shape))
        joins = join and bool(steps) and st.session_state.get(_JOINED) == url_state.get(EDITS)
        steps = [*steps[:-1], [*steps[-1], *new]] if joins else [*steps, new]
    _put(steps)
    if join:
        st.session_state[_JOINED] = url_state.get(EDITS)


def _without(edit: Edit, kind: AttentionKind, heads: Bools) -> list[Edit]:
    """Return the rest of an edit without these heads."""
    covered = heads_off([edit], kind, heads.shape)
    return language.off_edits(kind, covered & ~heads) if (covered & heads).any() else [edit]


def named(words: str, trace: Trace) -> str:
    """Replace the numbers of tokens in the words of edits by the tokens."""
    tokens = {
        "source token": trace.src_tokens, "target position": trace.tgt_tokens,
        "step": trace.predicted_tokens,
    }  # fmt: skip

    def token(match: re.Match[str]) -> str:
        of, at = tokens[match[1]], int(match[2]) - 1
        return f"“{plain_token(of[at])}”" if at < len(of) else match[0]

    return re.sub(rf"({'|'.join(tokens)}) (\d+)", token, words)


def heads_taken(view: View, trace: Trace) -> list[Head]:
    """Return the heads that the view's edits remove."""
    edits = language.parse_edits(view.entry.ref.edits)
    return [
        Head(kind, int(layer), int(head))
        for kind in ATTENTION_KINDS
        for layer, head in np.argwhere(heads_off(edits, kind, trace.attention(kind).shape[:2]))
    ]


def restore_heads() -> None:
    """Restore all heads and keep other edits. A callback."""
    _put([[edit for edit in step if not edit.silences] for step in _steps()])


def offer(
    label: str, back: str, edits: Sequence[Edit], *, key: str, help: str | None = None
) -> None:
    """Draw a button that makes edits in one step, or undoes them."""
    if _button(label, back, key, help, out=set(edits) <= set(_chosen())):
        toggle(*edits)
        st.rerun()


def offer_switch(view: View, trace: Trace, kind: AttentionKind, layer: int, head: int) -> None:
    """Draw a button that removes a head, or restores it."""
    if view.kind != "checkpoint":
        return
    heads = head_of(trace, kind, layer, head)
    out = bool(view.entry.ref.edits) and off_now(kind, heads)
    about = None if out else "Translate without this head, on every page."
    if _button("Take it out", "Bring it back", "edit_switch", about, out=out):
        switch_head(trace, kind, layer, head)
        st.rerun()


def switch_head(trace: Trace, kind: AttentionKind, layer: int, head: int) -> None:
    """Remove a head, or restore it, and keep it on screen."""
    switch(kind, head_of(trace, kind, layer, head))
    if not url_state.stored(LAYER):
        url_state.put_head(kind, layer, head)


def _button(label: str, back: str, key: str, help: str | None, *, out: bool) -> bool:
    return st.button(
        back if out else label, key=key, type="tertiary", help=help,
        icon=":material/undo:" if out else ":material/content_cut:",
    )  # fmt: skip


def _typed() -> None:
    if text := st.session_state["edit_box"].strip():
        add(text)
        if _REFUSED not in st.session_state:
            st.session_state["edit_box"] = ""


def _texts() -> list[list[str]]:
    steps = (step.split(",") for step in url_state.get(EDITS).split(";"))
    return [[text.strip() for text in step if text.strip()] for step in steps]


def _steps() -> list[list[Edit]]:
    """Return the link's edits by step; `draw_box` has removed invalid ones."""
    return [[language.parse_edit(text) for text in step] for step in _texts() if step]


def _chosen() -> list[Edit]:
    return [*chain(*_steps())]


def _put(steps: Sequence[Sequence[Edit]]) -> None:
    url_state.put(EDITS, "; ".join(", ".join(map(str, step)) for step in steps if step))
    drop_ids()
