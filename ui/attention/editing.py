"""Heads of the Attention page: found by a pattern, and edited by switches, cells and words."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.attention import head_table
from figures.exhibit import file_stem
from figures.labels import code, count, plain, plain_token
from transformer.edits.language import PLACES, Edit, Where, heads_off, parse_edits
from transformer.measures.heads import PATTERNS, Head, even_share, ranked
from transformer.measures.words import group_labels, word_groups
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats, InputError
from ui.attention import choice as choices
from ui.attention import maps as mapping
from ui.attention.choice import AttentionSettings, as_units
from ui.attention.exhibits import found_exhibit
from ui.attention.maps import AttentionChoice, Maps, kinds_of, mask_of
from ui.components.grid import Cell, switched
from ui.components.lens import Map
from ui.components.mount import show
from ui.components.packing import fits
from ui.components.strip import strip_component
from ui.core import url_state, widgets
from ui.core.doubts import headline
from ui.core.layout import current_theme, draw_chart
from ui.core.url_state import KIND
from ui.core.view import View
from ui.core.widgets import bound, filled
from ui.export.download import download_button, source_of, trace_for
from ui.frame.editing import draw_changes, offer, restore_heads, said_of_changes, switch
from ui.work.desk import computed, drawn, get_trace

_MOST = 10  # heads in the ranking

#: Prefix of role names among the patterns.
_ROLE = "role."


def draw_find(view: View, trace: Trace, choice: AttentionChoice) -> None:
    """Draw the controls for pattern and kinds, and the ranking."""
    names: dict[str, str] = dict(mapping.NAMES.items())
    study = choices.study_for(view)
    roles = {_ROLE + role.name: role for role in (study.roles if study else ())}
    names |= {key: f"{role.title} (from the study)" for key, role in roles.items()}
    try:
        names |= choices.measures()
    except InputError as error:
        st.error(plain(str(error)))
    stored = url_state.get(AttentionSettings.find)
    chosen = stored if stored in names else PATTERNS[0]
    row = st.container(horizontal=True, vertical_alignment="bottom")
    row.selectbox(
        "Heads that look at", list(names),
        format_func=lambda name: names[name].replace("`", ""), width=280,
        **bound(AttentionSettings.find, value=chosen),
        help="Heads are ranked by the weight on these keys, averaged over the rows that have one. "
        "Rows that see a single key are left out. The diagonal is the line from the first query "
        "and key to the last ones, and one key to either side. For a role of the study, they are "
        "ranked by their score above the best simple rule.",
    )  # fmt: skip
    if study is not None and chosen in roles:
        findings = study.in_role(roles[chosen])
        row.caption(
            f"On {plain(study.read)}; "
            f"{count(sum(finding.named for finding in findings), 'head')} clearly above it."
        )
        margins = [
            (finding.margin, finding.head.kind, finding.head[1:])
            for finding in findings if finding.head.kind in kinds_of(trace)
        ]  # fmt: skip
        with st.container(horizontal=True, gap="small"):
            _offer(trace, choice, margins, "**{:+.0%}** against the best simple rule", named=True)
        return
    pair = (0, 0)
    if chosen == "pair":
        kinds: tuple[AttentionKind, ...] = (choice.kind,)  # tokens are of this kind's axes
        pair = _draw_tokens(choices.get_maps(view, trace, choice), choice, row)
    else:
        with row:
            kinds = _draw_kinds(trace, choice, chosen)
    ranking: list[tuple[float, AttentionKind, Head]] = []
    notes, here = [], choice.kind if choice.kind in kinds else kinds[0]
    table: Floats | None = None
    for kind in kinds:
        maps = choices.get_maps(view, trace, replace(choice, kind=kind))
        name = mapping.kind_text_of(trace, kind).short or mapping.kind_text_of(trace, kind).name
        values = computed(view, choices.found_values(kind, choice.units, chosen, pair))
        if isinstance(values, str):
            st.error(plain(values))
            return
        if values is None:
            notes.append(f"{name}: {_why(chosen, kind)}")
            continue
        for pattern in PATTERNS:
            if pattern == chosen:
                even = even_share(mask_of(maps, kind, pattern, *as_units(pair)), causal=maps.causal)
                notes.append(f"{name}: an even spread would give {even:.2f}.")
        ranking += [(value, kind, head) for head, value in ranked(values)[:_MOST]]
        table = values if kind == here else table
    row.caption("  \n".join(notes))
    says = "puts **{:.0%}** there" if chosen in PATTERNS else "has **{:.2f}**"
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        _offer(trace, choice, ranking, says, named=len(kinds) > 1)
        if table is not None:
            _draw_table(view, replace(choice, kind=here), chosen, table, pair)


def _draw_table(
    view: View, choice: AttentionChoice, find: str, values: Floats, pair: tuple[int, int]
) -> None:
    """Draw all heads of one kind as a table with downloads."""
    queries, keys = as_units(pair) if find == "pair" else ((), ())
    what = {"kind": choice.kind, "units": choice.units, "queries": queries, "keys": keys}
    with st.popover("Every head", icon=":material/grid_on:", type="tertiary"):
        layer, head = ranked(values)[0][0]
        alt = f"The largest is {values.max():.2f} in layer {layer + 1}, head {head + 1}."
        with st.container(width=max(280, 34 * (2 + values.shape[1]))):
            draw_chart(drawn(head_table, values, current_theme()), alt, key="found")
        st.caption(alt)
        download_button(
            lambda: found_exhibit(trace_for(view), source_of(view), find, **what),
            key="found", name=file_stem(choice.kind, find), n_numbers=values.size,
        )  # fmt: skip


def _offer(
    trace: Trace, choice: AttentionChoice, ranking: list[tuple[float, AttentionKind, Head]],
    says: str, *, named: bool,
) -> None:  # fmt: skip
    for share, kind, head in sorted(ranking, key=lambda place: -place[0])[:_MOST]:
        part = f"{mapping.kind_text_of(trace, kind).short} layer" if named else "Layer"
        st.button(
            f"{part} {head[0] + 1}, head {head[1] + 1} {says.format(share)}",
            key=f"find_{kind}_{head[0]}_{head[1]}", type="tertiary", on_click=open_head,
            args=(kind, head, choice.display),
        )  # fmt: skip


def open_head(kind: AttentionKind, head: Head, display: str) -> None:
    """Show a head in the open display."""
    if kind != url_state.get(KIND):
        url_state.put(KIND, kind)
    choices.choose_cell(head, *([head] if display == "heads" else []))


def _draw_kinds(trace: Trace, choice: AttentionChoice, pattern: str) -> tuple[AttentionKind, ...]:
    """Draw the kinds to search: by default the one on screen, if it can have the pattern."""
    kinds = kinds_of(trace)
    stored = url_state.get(AttentionSettings.find_in)
    can = tuple(kind for kind in kinds if _can(pattern, kind))
    default = (choice.kind,) if choice.kind in can or not can else can
    chosen = tuple(kind for kind in kinds if kind in (stored or ())) or default
    if len(kinds) == 1:
        return chosen
    st.pills(
        "In", kinds, selection_mode="multi",
        format_func={kind: mapping.kind_text_of(trace, kind).short for kind in kinds}.__getitem__,
        **bound(AttentionSettings.find_in, value=list(chosen)),
    )  # fmt: skip
    return chosen


def _draw_tokens(maps: Maps, choice: AttentionChoice, where: DeltaGenerator) -> tuple[int, int]:
    """Draw the lists of queries and keys, and return the chosen pair, as units.

    The matrix sums the same tokens; without any, the pair is the last query and the first key.
    """
    queries, keys = maps.units(choice)
    chosen = (*queries, len(maps.queries) - 1)[0], (*keys, 0)[0]

    def take(n: int, at: int) -> None:
        choices.choose_selection(maps.pieces(*as_units((chosen[0], at) if n else (at, chosen[1]))))

    for n, (side, label, labels) in enumerate((
        ("query", "From the query", maps.queries), ("key", "to the key", maps.keys)
    )):  # fmt: skip
        named = [f"{i} {plain_token(token)}" for i, token in enumerate(labels, 1)]
        where.selectbox(
            label, range(len(labels)), format_func=named.__getitem__, width=200,
            **filled(f"find_{side}_box", chosen[n], partial(take, n)),
        )  # fmt: skip
    return chosen


def _can(pattern: str, kind: AttentionKind) -> bool:
    """Return True if maps of this kind can have the pattern."""
    if kind == "cross":
        return pattern not in ("previous", "next", "itself")
    return not (pattern == "next" and kind == "decoder_self")


def _why(pattern: str, kind: AttentionKind) -> str:
    if kind == "cross" and not _can(pattern, kind):
        return "queries and keys are tokens of two texts."
    if not _can(pattern, kind):
        return "impossible, the next token is masked."
    if pattern == "end":
        return "there is no such token among the keys."
    if pattern == "pair":
        return "the key is masked, or the only one that this query sees."
    return "the text is too short."


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
    """Draw the effect of edits by token, below the picture, so that a switch does not move it."""
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
    """Return the removed heads by kind, or None if the model takes no edits."""
    if view.kind != "checkpoint":
        return None
    edits = parse_edits(view.entry.ref.edits)
    return {
        kind: heads_off(edits, kind, trace.attention(kind).shape[:2]) for kind in kinds_of(trace)
    }


def marked(view: View, choice: AttentionChoice, maps: Maps) -> Map:
    """Return the map under the lens, hatched if its head is removed, with the answer to a click."""
    shown, off = mapping.shown_map(maps, choice), heads_out(view, get_trace(view))
    if off and not choice.chosen and None not in choice.cell and off[choice.kind][choice.cell]:
        place = ".".join(str(at + 1) for at in choice.cell if at is not None)
        shown = replace(shown, name=f"{place} (removed)", out=True)
    if found := asked_heads(view, choice, maps):
        (query, *_), (key, *_) = maps.units(choice)
        heads = ", ".join(f"{at[0] + 1}.{at[1] + 1}\u00a0{word}" for at, (word, _) in found.items())
        shown = replace(shown, ringed=((query, key),), asked=heads)
    return shown


def asked_heads(view: View, choice: AttentionChoice, maps: Maps) -> dict[Head, tuple[str, str]]:
    """Return the 3 heads with most weight on the cell asked for, as `heads_do`, or {}."""
    queries, keys = maps.units(choice)
    if not queries or not keys or url_state.get(AttentionSettings.find) != "pair" or view.cells:
        return {}
    pair = queries[0], keys[0]
    values = computed(view, choices.found_values(choice.kind, choice.units, "pair", pair))
    best = [] if values is None or isinstance(values, str) else ranked(values)[:3]
    return {head: (f"{share:.0%}", f"{share:.0%} is on the framed cell.") for head, share in best}


def take_switch(off: Mapping[str, Bools]) -> None:
    """Remove or restore heads, as the grid reports. A callback."""
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
