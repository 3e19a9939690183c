"""The table of what heads do, the numbers and sentences of one, and questions about all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.heads import Cell, head_roles
from figures.labels import KIND_NAMES, code, count, percent, plain, signed
from figures.removals import selection_of
from figures.training import curves
from transformer.checkpoint.snapshots import readable_history
from transformer.errors import InputError
from transformer.study.examples import Example, as_sentence, examples
from transformer.study.importance import agreement
from transformer.study.records import Kept, Role
from transformer.study.roles import words_of
from transformer.study.where import Look
from transformer.trace.removals import Head
from transformer.types import AttentionKind
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.layout import current_theme, draw_chart, sized
from ui.core.view import View
from ui.core.widgets import bound, choose_one, fill, filled
from ui.export.download import download_button, source_of
from ui.frame.pages import open_page
from ui.heads.choice import ANY, OWN, THINGS, HeadsChoice, choose_head
from ui.heads.exhibits import name_of, role_exhibit
from ui.work.cache import drawn
from ui.work.models import load
from ui.work.results import OTHERS
from ui.work.studies import RARE, Opened, in_words, short_name, studies, study_of

#: Names of the kinds of attention in narrow places, and of the measures of importance.
KINDS: dict[AttentionKind, str] = {
    "encoder_self": "Encoder", "decoder_self": "Decoder", "cross": "Cross",
}  # fmt: skip
MEASURE_NAMES = {
    "gradient": "slope of the loss", "removal": "single removal", "bleu": "BLEU lost",
    "order": "order of pruning", "sharpness": "sharpness",
}  # fmt: skip
UNITS = {
    "gradient": "nats a token", "removal": "nats a token", "bleu": "points",
    "order": "th head to go", "sharpness": "",
}  # fmt: skip
MEASURE_ABOUT = {
    "gradient": "|dL/dgate|: how fast the loss of a token changes as the head's output is scaled.",
    "removal": "The log-probability that a token loses when this head alone is out.",
    "bleu": "The BLEU that greedy translations lose when this head alone is out.",
    "order": "Heads are taken out one after the other, the least harmful first.",
    "sharpness": "The largest weight of a query, on average; it says nothing of importance.",
}

#: Findings listed of a head, and words shown around a pair.
_MOST, _AROUND = 5, 2
#: Rank correlation from which two measures are said to agree.
_AGREE = 0.5


def draw_role(opened: Opened) -> Role | None:
    """Draw the choice of what the table shows; return the role, None for what each head does."""
    roles = {role.name: role.title for role in opened.study.roles}
    stored = url_state.get(HeadsChoice.role)
    shown = stored if stored in roles else ""
    st.selectbox(
        "Show", ["", *roles], width=320,
        format_func=lambda name: roles.get(name, "what each head does"),
        **filled("role_box", shown, partial(url_state.put, HeadsChoice.role)),
    )  # fmt: skip
    return opened.study.role(stored)


def role_of(opened: Opened, head: Head) -> Role:
    """Return the role whose examples are shown of a head: its clearest."""
    tag = opened.tags.get(head)
    found = tag.finding if tag else opened.nearest(head)
    return found.role if found else opened.study.roles[0]


def offer(view: View, opened: Opened, role: Role) -> None:
    """Draw the download of a role's scores, if any head was measured in a study that is kept."""
    if opened.name != OWN and any(opened.study.finding(role, head) for head in opened.study.heads):
        download_button(
            partial(role_exhibit, opened.study, role, source_of(view), opened.name),
            key="role", name=name_of(role),
        )  # fmt: skip


def draw_table(opened: Opened, role: Role | None, head: Head) -> None:
    """Draw the heads of each kind, folded if none has a role; a click chooses a head."""
    study, tables, folded = opened.study, {}, {}
    for kind in study.kinds:
        heads = [each for each in study.heads if each.kind == kind]
        if any(study.finding(role, each) if role else each in opened.tags for each in heads):
            tables[kind] = _cells(opened, kind, role)
        elif role is None:
            folded[kind] = heads
    said, key = about_table(opened, role), f"roles_{opened.name}_{role.name if role else ''}"
    if tables:
        _draw_cells(tables, head, said, key)
    st.markdown(said)
    for kind, heads in folded.items():
        about = f"None of the {len(heads)} heads of {KIND_NAMES[kind].lower()} has a role."
        if near := opened.nearest(*heads):
            place, does = f"{near.head.layer + 1}.{near.head.head + 1}", plain(near.role.title)
            about += f" Nearest: {place}, {does} ({near.score:.0%}; best control {near.bar:.0%})."
        with st.expander(about, expanded=not tables or kind == head.kind):
            _draw_cells({kind: _cells(opened, kind, None)}, head, about, f"{key}_{kind}")


def _draw_cells(
    cells: Mapping[AttentionKind, list[list[Cell]]], head: Head, said: str, key: str
) -> None:
    place = head.kind, head.layer, head.head
    event: Any = st.altair_chart(
        sized(drawn(head_roles, cells, place, current_theme())), theme=None, width="content",
        key=key, on_select="rerun", selection_mode=[*map(selection_of, cells)], alt=said,
    )  # fmt: skip
    for kind in cells:
        if picked := event["selection"].get(selection_of(kind)):
            chosen = Head(kind, picked[0]["layer"] - 1, picked[0]["number"] - 1)
            if chosen != head:
                choose_head(chosen)
                st.rerun()


def _cells(opened: Opened, kind: AttentionKind, role: Role | None) -> list[list[Cell]]:
    n_layers, n_heads = opened.study.shape(kind)
    return [
        [_cell(opened, Head(kind, layer, head), role) for head in range(n_heads)]
        for layer in range(n_layers)
    ]


def _cell(opened: Opened, head: Head, role: Role | None) -> Cell:
    if role is None:
        if tag := opened.tags.get(head):
            margin = max(0.0, tag.finding.margin)
            return Cell(margin, tag.word, f"{tag.finding.score:.0%}", tag.text)
        near = opened.nearest(head)
        if near is None:
            return Cell(0.0, "–", "", "no role could be measured")
        about = f"not named; nearest to {in_words(near)}"
        return Cell(0.0, f"({short_name(near.role)})", f"{near.score:.0%}", about, quiet=True)
    found = opened.study.finding(role, head)
    if found is None:
        return Cell(0.0, "–", "", "this role does not apply here")
    return Cell(
        max(0.0, found.margin), f"{found.score:.0%}", signed(100 * found.margin, 0),
        in_words(found),
    )  # fmt: skip


def about_table(opened: Opened, role: Role | None) -> str:
    """Return what the table says, in a sentence or two of Markdown."""
    study = opened.study
    if role is None:
        n = len(opened.tags)
        return (
            f"**{n} of {len(study.heads)} heads** score above every control: the stronger the "
            "colour, the further. In brackets: the role whose best control a head comes nearest "
            f"to; roles with less than one trial in {RARE} words are left out."
        )
    found = [each for head in study.heads if (each := study.finding(role, head))]
    if not found:
        return f"No head of this model could be measured for: {plain(role.title)}."
    best = max(found, key=lambda each: each.margin)
    named = sum(each.named for each in found)
    return (
        f"Best: **{best.head.off.place}**, {plain(in_words(best))} The role is **named** for "
        f"{count(named, 'head')}. Below each score: points above the best control."
    )


def draw_head_box(opened: Opened, head: Head) -> None:
    """Draw the list of all heads with what they do, for whoever does not click the table."""

    def name(each: Head) -> str:
        tag = opened.tags.get(each)
        does = f": {tag.finding.role.title}" if tag else ""
        return f"{KINDS[each.kind]} {each.layer + 1}.{each.head + 1}{does}"

    st.selectbox(
        "Head", opened.study.heads, format_func=name, width=320,
        **filled("head_box", head, choose_head),
    )  # fmt: skip


def draw_findings(opened: Opened, head: Head) -> None:
    """Draw the roles of a head with every control, the clearest first."""
    found = opened.study.findings(head)[:_MOST]
    if not found:
        st.caption("There are too few words to measure this head.")
        return
    rows = [
        (
            plain(each.role.title), percent(each.score),
            f"{percent(each.low)} to {percent(each.high)}", f"{each.pairs:,}",
            _control(each.offset_score, f" at {signed(each.offset, 0)}"),
            _control(each.word_score), _control(each.blind), percent(each.random),
            "named" if each.named else f"{signed(100 * (each.low - each.bar), 1)} points",
        )
        for each in found
    ]  # fmt: skip
    names = ("role", "score", "95% interval", "trials", "best distance", "one word",
             "its usual word", "random", "above controls")  # fmt: skip
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    st.table({name: list(each) for name, each in columns.items() if {*each} != {"–"}},
             hide_index=True)  # fmt: skip


def _control(score: float, more: str = "") -> str:
    return "–" if math.isnan(score) else f"{percent(score)}{more}"


def draw_examples(view: View, opened: Opened, role: Role, head: Head) -> None:
    """Draw where a head does best what a role says, where it fails, and trials at random."""
    found = examples(opened.study, opened.pairs, role, head)
    st.markdown(
        f"**{plain(role.title[:1].upper() + role.title[1:])}**: {count(found.n, 'trial')} in the "
        "sentences that are kept. The word in **bold** looks most at the `marked` one."
    )
    titles = ("It does it, largest weight first", "It fails, largest weight first", "At random")
    for column, title, some in zip(st.columns(3), titles, found[1:], strict=True):
        column.markdown(f"**{title}**")
        if not some:
            column.caption("None.")
        lines = column.container(gap=None, key=f"looks_{title[:9]}")
        for at, each in enumerate(some):
            mark = "" if title != titles[2] else ("✓ " if each.right else "✗ ")
            _offer(lines, view, opened, head, each, f"{title[:9]}{at}", mark)


def _offer(
    where: DeltaGenerator,
    view: View,
    opened: Opened,
    head: Head,
    look: Example | Look,
    key: str,
    mark: str = "",
    around: int = _AROUND,
) -> None:
    sentence = opened.study.sentences[look.sentence]
    where.button(
        f"{mark}{look.weight:.2f} · {_snippet(sentence, head.kind, look, around)}",
        key=f"look {key}", type="tertiary", help="Open it in Attention.", on_click=_open,
        args=(view, sentence, head, look.query, look.key),
    )  # fmt: skip


def _snippet(sentence: Kept, kind: AttentionKind, look: Example | Look, around: int) -> str:
    queries, keys = sentence.queries(kind), sentence.keys(kind)
    if queries is keys:
        return _around(queries, {look.query: "query", look.key: "key"}, around)
    one = _around(queries, {look.query: "query"}, around)
    return f"{one} → {_around(keys, {look.key: 'key'}, around)}"


def _around(words: Sequence[str], marked: Mapping[int, str], around: int) -> str:
    """Return the marked words and those around them as Markdown."""
    shown, last = [], -1
    for at, word in enumerate(words):
        if min(abs(at - each) for each in marked) > around // 2:
            continue
        if at != last + 1:
            shown.append("…")
        last = at
        of = marked.get(at)
        shown.append(
            code(word) if of == "key" else f"**{plain(word)}**" if of == "query" else plain(word)
        )
    return " ".join(shown + ["…"] * (last < len(words) - 1))


def _open(view: View, sentence: Kept, head: Head, query: int, key: int) -> None:
    """Open Attention on a pair: its sentence, its translation, its head, and both words marked."""
    target = " ".join(sentence.target)
    values = {
        "sentence": sentence.text, "kind": head.kind, "layer": str(head.layer + 1),
        "head": str(head.head + 1), "display": "matrix", "map": "cell", "units": "tokens",
    }  # fmt: skip
    if target:
        values["target"] = target
    with suppress(InputError), OTHERS.turn():
        words = words_of(
            as_sentence(sentence),
            load(view.request).trace(sentence.text, target or None),
            head.kind,
        )
        for name, places, at in (("queries", words.rows, query), ("keys", words.columns, key)):
            if at < len(places) and places[at]:
                values[name] = "-".join(str(place + 1) for place in places[at])
    open_page("attention", values)


def draw_where(view: View, opened: Opened, head: Head) -> None:
    """Draw the form of "sentences where this head looks from X to Y", and its answer."""
    tokenizer = getattr(load(view.request), "tokenizer", None)

    def pieces(word: str) -> Sequence[str]:
        return () if tokenizer is None else tokenizer.tokenize(word).pieces

    index = opened.where(pieces)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for of, value, label, keys in (
            (HeadsChoice.source, HeadsChoice.source_value, "Looks from", False),
            (HeadsChoice.key, HeadsChoice.key_value, "to", True),
        ):
            st.selectbox(label, list(THINGS), width=170, format_func=THINGS.__getitem__,
                         **bound(of, value))  # fmt: skip
            chosen = url_state.get(of)
            if chosen in ("tag", "relation"):
                options = index.values(head.kind, chosen, keys=keys)  # type: ignore[arg-type]
                known = url_state.get(value)
                fill(f"{value.name}_box", known if known in options else None)
                st.selectbox(
                    THINGS[chosen], options, key=f"{value.name}_box", width=170, index=None,
                    label_visibility="collapsed", placeholder="Choose one",
                    on_change=lambda value=value: url_state.put(
                        value, st.session_state[f"{value.name}_box"] or ""
                    ),
                )  # fmt: skip
            elif chosen != ANY:
                st.text_input(THINGS[chosen], width=170, label_visibility="collapsed",
                              max_chars=80, **bound(value))  # fmt: skip
    answer = index(head, *HeadsChoice.read().terms)
    st.caption(
        f"{count(answer.n_looks, 'look')} in {count(answer.n_sentences, 'sentence')} of the "
        f"{len(opened.study.sentences):,} that the study keeps. The heaviest:"
    )
    lines = st.container(gap=None, key="looks_where")
    for at, look in enumerate(answer.looks):
        _offer(lines, view, opened, head, look, f"where {at}", around=16)


def draw_importance(opened: Opened, head: Head) -> None:
    """Draw one measure of importance for all heads, and how far the measures agree."""
    measured = {name: opened.study.importance[name] for name in MEASURE_NAMES
                if name in opened.study.importance}  # fmt: skip
    if not measured:
        st.caption("Not measured: only models in this project's format can lose a head.")
        return
    stored = url_state.get(HeadsChoice.measure)
    name = stored if stored in measured else next(iter(measured))
    choose_one("Measure", HeadsChoice.measure, {each: MEASURE_NAMES[each] for each in measured},
               chosen=name)  # fmt: skip
    most = max(float(values.max()) for values in measured[name].values())
    cells = {
        kind: [
            [Cell(max(0.0, float(value) / most) if most > 0 else 0.0, _amount(name, value), "",
                  f"{MEASURE_NAMES[name]}: {_amount(name, value)} {UNITS[name]}")
             for value in line]
            for line in values
        ]
        for kind, values in measured[name].items()
    }  # fmt: skip
    draw_chart(
        drawn(head_roles, cells, (head.kind, head.layer, head.head), current_theme()),
        f"{MEASURE_NAMES[name]} of every head",
        key="importance",
    )
    st.markdown(linked(agreement_in_words(measured), "rank correlation"))
    about = opened.study.notes.get("importance", {})
    source = plain(str(about.get("text", "sentences")))
    st.caption(f"{MEASURE_ABOUT[name]} On {about.get('sentences', '?')} {source}.")


def _amount(name: str, value: float) -> str:
    return f"{value:.0f}" if name == "order" else signed(float(value), 1 if name == "bleu" else 3)


def agreement_in_words(measured: Mapping[str, Any]) -> str:
    """Return the rank correlations of all measures in a sentence of Markdown."""
    found = {pair: value for pair, value in agreement(measured).items() if not math.isnan(value)}
    sharp = {pair: value for pair, value in found.items() if "sharpness" in pair}
    real = {pair: value for pair, value in found.items() if pair not in sharp}

    def listed(pairs: Mapping[tuple[str, str], float]) -> str:
        return ", ".join(
            f"{' and '.join(MEASURE_NAMES[each] for each in pair if each != 'sharpness')} "
            f"{signed(value)}"
            for pair, value in pairs.items()
        )

    said = ""
    if real:
        agree = "agree" if min(real.values()) >= _AGREE else "agree only in part"
        said = (
            f"The measures **{agree}** on which heads matter (rank correlation): {listed(real)}. "
        )
    if sharp:
        follow = "follows" if min(sharp.values()) >= _AGREE else "does not follow"
        said += f"Importance **{follow}** how sharply a head looks: {listed(sharp)}."
    return said


def draw_through_training(view: View, opened: Opened, role: Role, head: Head) -> None:
    """Draw the score of a role at the moments of training that were studied on the same text."""
    ref = view.entry.ref.edited("")
    lines: dict[str, list[tuple[int, float]]] = {"score": [], "best control": []}
    for moment in readable_history(ref.folder).snapshots:
        for path in studies(ref.after(moment.updates)):
            other = study_of(ref.after(moment.updates), path.name)
            if other is None or other.study.corpus_digest != opened.study.corpus_digest:
                continue
            known = other.study.role(role.name)
            found = known and other.study.finding(known, head)
            if found:
                lines["score"].append((moment.updates, found.score))
                lines["best control"].append((moment.updates, found.bar))
                break
    if len(lines["score"]) > 1:
        title = f"{role.title}, {head.off.place}"
        chart = drawn(curves, lines, title, current_theme(), share=True)
        first, last = lines["score"][0], lines["score"][-1]
        st.markdown("#### Through training")
        draw_chart(chart, f"{title}: {percent(first[1])} after {first[0]:,} updates, "
                   f"{percent(last[1])} after {last[0]:,}", key="through_training")  # fmt: skip
