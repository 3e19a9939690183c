"""The table of head roles, one head's scores and sentences, and sentence search."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.heads import Cell, against_rules, head_roles
from figures.labels import code, count, percent, plain, query_labels, reads, shorten, signed
from figures.removals import selection_of
from figures.training import curves
from transformer.checkpoint.snapshots import readable_history
from transformer.study.corpus import Sentence
from transformer.study.examples import Example, Look, Of, examples
from transformer.study.records import Finding, Role, Study
from transformer.study.roles import MIN_PAIRS, words_of
from transformer.study.statistics import agreement
from transformer.trace.records import Trace
from transformer.trace.removals import Head
from transformer.types import AttentionKind, Floats, InputError
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.layout import clicked, current_theme, draw_chart
from ui.core.presenter import presenting
from ui.core.view import View
from ui.core.widgets import bound, filled
from ui.export.download import download_button, source_of
from ui.frame.page import open_page
from ui.heads.choice import MEASURES, OWN, HeadsChoice, term_of
from ui.heads.exhibits import name_of, role_exhibit
from ui.work.desk import drawn
from ui.work.results import LONG, load
from ui.work.studies import Opened, Tag, best_rule, in_words, rules, studies, study_of

#: Maximum number of looks and of other roles listed for a head, and of words quoted around a pair.
_MOST, _AROUND = 3, 2
#: Words from which roles show in a visitor's own sentences: with English → German, everyday, 24 of
#: 96 heads at 116 words, 5 at 86, and none at 59.
ENOUGH = 120
#: Minimum rank correlation, over its whole interval, for two measures to agree.
AGREE = 0.5


def draw_choice(opened: Opened, role: Role | None, measure: str, head: Head) -> None:
    """Draw selectors for the table's contents, and for a head as an alternative to clicking."""
    shows = {"roles": "role of each head"} if opened.tags else {}
    shows |= {name: f"importance: {MEASURES[name].name}" for name in opened.study.importance}
    shows |= {option.name: option.title for option in opened.study.roles}
    st.selectbox(
        "Show", list(shows), width=300, label_visibility="collapsed", format_func=shows.__getitem__,
        **bound(HeadsChoice.shows, key="role_box", value=role.name if role else measure or "roles"),
    )  # fmt: skip

    def name(choice: Head) -> str:
        tag = opened.tags.get(choice)
        does = f": {tag.word}" if tag and tag.finding.named else ""
        return f"{choice.off.place[:1].upper()}{choice.off.place[1:]}{does}"

    st.selectbox(
        "Head", opened.study.heads, format_func=name, width=300, label_visibility="collapsed",
        **filled("head_box", head, lambda chosen: url_state.put_head(*chosen)),
    )  # fmt: skip


def offer(view: View, opened: Opened, role: Role) -> None:
    """Draw the download of a role's scores if a stored study has them."""
    if opened.name != OWN and opened.study.in_role(role):
        download_button(
            partial(role_exhibit, opened.study, role, source_of(view), opened.name),
            key="role", name=name_of(role),
        )  # fmt: skip


def draw_table(opened: Opened, role: Role | None, measure: str, head: Head) -> str:
    """Draw the clickable table of heads; return what explains it."""
    study, own = opened.study, opened.name == OWN
    read = f"{count(study.n_sentences, 'sentence')} of your own" if own else plain(study.read)
    if measure:
        cells = _important(measure, study.importance[measure])
        about = study.notes.get("importance", {})
        if not own:
            read = f"{about.get('sentences', '?')} {plain(str(about.get('text', 'sentences')))}"
        key = "Colours are on a square-root scale: a pale number matters little."
    elif role and (findings := study.in_role(role)):
        most = max(abs(finding.margin) for finding in findings) or 1.0
        cells = {finding.head: _in_role(finding, most) for finding in findings}
        key = (
            "Left: how often the head looks at the right word. Right: percentage points above (+) "
            "or below (−) the best simple rule. Coloured: above that rule."
        )
    else:
        cells = {head: _does(opened.tags.get(head)) for head in study.heads}
        key = (
            "Where each head looks, and how often, in percent. Coloured: its role. Grey: its most "
            "frequent target, but not clearly enough for a role. *Rare word* is the sentence's "
            "rarest in the corpus; *diagonal*, the token at the same place in the other text; "
            "*marks*, punctuation; *even*, all tokens alike; *writes* or *wrote*, the source "
            "of the next word or of the word just written."
        )
        if "cross" in study.looks and not study.role("translates"):
            key += " *The word it translates* is a role of translators of English, German and "
            key += "French, where links of words are known."
    if role and role.needs == "links":
        read = str(study.notes.get("links"))
    chart, kinds = drawn(head_roles, cells, head, current_theme()), {at.kind for at in cells}
    name = "needs" if measure else "roles"
    name += f"_{opened.name}_{role.name if role else measure}"
    for at in clicked(chart, map(selection_of, kinds), key, name, width="content"):
        chosen = Head(at["kind"], at["layer"] - 1, at["number"] - 1)
        if chosen != head:
            url_state.put_head(*chosen)
            st.rerun()
    return f"{key} Measured on {read}."


def _does(tag: Tag | None) -> Cell:
    if tag is None:
        return Cell(0.0, "–", "", "not measured")
    score, named = f"{100 * tag.finding.score:.0f}", tag.finding.named
    about = f"{'' if named else 'no role; '}{tag.text}"
    return Cell(tag.finding.margin if named else 0.0, tag.word, score, about, not named)


def _in_role(finding: Finding, most: float) -> Cell:
    above = finding.margin > 0
    points = f"{'+' * above}{signed(100 * finding.margin, 0)}"
    return Cell(finding.margin / most, f"{finding.score:.0%}", points, in_words(finding), not above)


def _important(measure: str, values: Mapping[AttentionKind, Floats]) -> dict[Head, Cell]:
    texts, cells = MEASURES[measure], {}
    most = max(0.0, *(float(np.abs(grid).max()) for grid in values.values())) or 1.0
    for kind, grid in values.items():
        for (layer, head), value in np.ndenumerate(grid):
            amount = signed(float(value), texts.digits)
            about = f"{texts.name}: {amount} {texts.unit}"
            if measure == "removal":  # what a loss in nats means
                amount = f"{signed(100 * math.expm1(-value), 1)}%"
            read = round(float(value), texts.digits)  # numbers that read alike look alike
            light = (-read if texts.loss else read) / most
            small = abs(light) < 0.05  # of the most important head's number: pale
            cells[Head(kind, layer, head)] = Cell(light, amount, "", about, small, texts.loss)
    return cells


def too_few(opened: Opened) -> str:
    """Return how many more sentences of the visitor's own show roles, as Markdown, or ""."""
    study = opened.study
    n, words = study.n_sentences, sum(len(sentence.words) for sentence in study.sentences)
    if opened.name != OWN or any(tag.finding.named for tag in opened.tags.values()):
        return ""
    if words >= ENOUGH or not words:
        return ""
    more = math.ceil((ENOUGH - words) * n / words)
    yours = f"Your {n} sentences are" if n > 1 else "One sentence is"
    return (
        f"**{yours} too few to find the heads' roles.** A role needs {MIN_PAIRS} words to be "
        f"measured and shows clearly from about {ENOUGH}; you have {words}. Add about "
        f"{count(more, 'sentence')} of this length below."
    )


def about_table(opened: Opened, role: Role | None, measure: str, head: Head) -> str:
    """Return a one- or two-sentence Markdown summary of the table."""
    study = opened.study
    if role is None and (few := too_few(opened)):
        return few
    if measure:
        nats = -float(study.importance[measure][head.kind][head[1:]])
        share = signed(100 * math.expm1(min(nats, 99)), 1)
        about = MEASURES[measure].about.format(place=head.off.place.capitalize(), share=share)
        return f"**Which heads does the model need?** {about}"
    if role is None:
        heads, n = len(study.heads), sum(tag.finding.named for tag in opened.tags.values())
        have = f"{n} of {heads} heads {'has' if n == 1 else 'have'} a role"
        return linked(
            f"**{have if n else 'No head was shown to have a role'}**: a pattern that a head "
            "follows in sentence after sentence, clearly more often than any simple rule.",
            "role of a head",
        )  # fmt: skip
    findings = study.in_role(role)
    if not findings:
        return f"Too few words to measure: {plain(role.title)}."
    n_named = sum(finding.named for finding in findings)
    lead = f"No head clearly beats *{best_rule(findings[0])}*"
    if n_named:
        lead = f"{count(n_named, 'head')} of {len(findings)}: clearly better than every simple rule"
    return f"**{lead}.** The best is {findings[0].head.off.place}, {plain(in_words(findings[0]))}"


def draw_head(view: View, opened: Opened, role: Role, head: Head, trace: Trace) -> None:
    """Draw a head's score in a role beside simple rules, and example sentences."""
    study, maps, tag = opened.study, trace.attention(head.kind), opened.tags.get(head)
    finding = study.finding(role, head)
    has = role if finding and finding.named else tag and tag.finding.named and tag.finding.role
    does = plain(has.title) if has else "no clear role"
    st.markdown(f"#### {head.off.place[:1].upper()}{head.off.place[1:]}: {does}")
    verdict = st.container()
    if maps[head.layer :, head.head :].size:
        weights = maps[head.layer, head.head]
        queries, keys = query_labels(trace, head.kind), trace.axis_tokens(head.kind)[1]
        st.markdown("In your sentence, its largest weights:\n" + "\n".join(
            f"- {plain(reads(queries[at], keys[row.argmax()]))}: **{row.max():.0%}**"
            for at, row in sorted(enumerate(weights), key=lambda row: -row[1].max())[:_MOST]
        ))  # fmt: skip
    if finding is None:
        verdict.markdown("This study has too few words to measure this role.")
        return
    words, picture = verdict.columns([5, 6], gap="large", vertical_alignment="center")
    others = ", ".join([
        f"{plain(other.role.title)} {other.score:.0%} (best rule {max(rules(other).values()):.0%})"
        for other in study.findings(head) if other.role != role
    ][:_MOST])  # fmt: skip
    again, both, best = "", "", best_rule(finding)
    if finding.again_score >= 0:
        second, both = plain(study.second.replace("_", " ")), " on both texts"
        again = f", and {percent(finding.again_score)} on a second text ({second})"
    rule = f"the best simple rule, *{best}* ({percent(rules(finding)[best])}){both}"
    holds = f"This clearly beats {rule}: it is the head's role."
    if not finding.named:
        holds = f"A role must clearly beat {rule}, so this is no role of its own."
    words.markdown(
        f"The role *{plain(role.title)}* fits **{percent(finding.score)}** of {finding.pairs:,} "
        f"{'tokens' if role.needs == 'text' else 'pairs of words'} (95% interval "
        f"{percent(finding.low)} to {percent(finding.high)}){again}. {holds}"
        + f"  \n:gray[Nearest other roles: {others or 'none measured'}.]"
        * (not presenting())
    )
    scores = {"this head": finding.score, **rules(finding)}
    draw_chart(drawn(against_rules, scores, current_theme()), in_words(finding), picture, "rules")
    samples = examples(study, opened.pairs, role, head)
    if not any(samples[1:]):
        return
    misses = any(example.target not in (example.key, -1) for example in samples.failed)
    right = " The right word is in *italics*." if misses else ""
    st.markdown(
        "**Example sentences.** The query word is in **bold** and the key word is `marked`, with "
        f"the weight first.{right} Each sentence opens in Attention."
    )
    titles = ("Follows the role", "Does not", "At random")
    for column, title, some in zip(st.columns(3), titles, samples[1:], strict=True):
        if not some:
            continue
        is_random = title == titles[2]
        column.markdown(f"**{title}**" + ("" if is_random else " :gray[largest weight first]"))
        lines = column.container(gap=None, key=f"looks_{title}")
        for at, example in enumerate(some):
            mark = ("✓ " if example.right else "✗ ") * is_random
            _offer(lines, view, opened, head, example, f"{title} {at}", mark)


def _offer(
    where: DeltaGenerator, view: View, opened: Opened, head: Head, look: Example | Look, key: str,
    mark: str = "", around: int = _AROUND,
) -> None:  # fmt: skip
    sentence = opened.study.sentences[look.sentence]
    whole = " → ".join(filter(None, (sentence.text, " ".join(sentence.target))))
    where.button(
        f"{mark}{look.weight:.2f} · {snippet(sentence, head.kind, look, around)}",
        key=f"look {key}", type="tertiary", help=plain(whole), on_click=_open,
        args=(view, sentence, head, look.query, look.key),
    )  # fmt: skip


def snippet(sentence: Sentence, kind: AttentionKind, look: Example | Look, around: int) -> str:
    """Return a look's words, marked, with their neighbours, as Markdown."""
    queries, keys = sentence.queries(kind), sentence.keys(kind)
    target = look.target if isinstance(look, Example) else look.key
    query_places, key_places = {"query": look.query}, {"target": target, "key": look.key}
    if queries is keys and look.key >= 0:
        return _around(queries, query_places | key_places, around)
    key = _around(keys, key_places, around) if look.key >= 0 else "`start or end mark`"
    return f"{_around(queries, query_places, around)} → {key}"


def _around(words: Sequence[str], places: Mapping[str, int], around: int) -> str:
    parts, last = [], -1
    for at, word in enumerate(words):
        if min(abs(at - place) for place in places.values() if place >= 0) > around // 2:
            continue
        text = code(word, 24) if at == places.get("key") else plain(shorten(word, 24))
        for name, mark in (("target", "*"), ("query", "**")):
            if at == places.get(name) and (name == "query" or at != places["key"]):
                text = f"{mark}{text}{mark}"
        parts += ["…"] * (at != last + 1) + [text]
        last = at
    return " ".join(parts + ["…"] * (last < len(words) - 1))


def _open(view: View, sentence: Sentence, head: Head, query: int, key: int) -> None:
    """Open Attention on a sentence, its translation and a head, with both words marked."""
    target = " ".join(sentence.target)
    values = {
        "sentence": sentence.text, "kind": head.kind, "layer": str(head.layer + 1),
        "head": str(head.head + 1), "display": "matrix", "map": "cell", "units": "tokens",
    }  # fmt: skip
    if target:
        values["target"] = target
    with suppress(InputError), LONG.turn():
        trace = load(view.request).trace(sentence.text, target or None)
        words = words_of(sentence, trace, head.kind)
        for name, places, at in (("queries", words.rows, query), ("keys", words.columns, key)):
            if 0 <= at < len(places) and places[at]:
                values[name] = "-".join(str(place + 1) for place in places[at])
    open_page("attention", values)


def draw_where(view: View, opened: Opened, head: Head) -> None:
    """Draw the search for sentences in which the head looks from one term to another."""
    tokenizer = getattr(load(view.request), "tokenizer", None)
    index = opened.where(lambda word: tokenizer.tokenize(word).pieces if tokenizer else ())
    kinds: dict[Of, str] = {"tag": "part of speech", "relation": "relation"}

    def label_of(raw: str) -> str:
        term = term_of(raw)
        return f"{term.value} ({kinds.get(term.of, term.of)})" if term else "any word"

    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for param, label in ((HeadsChoice.source, "Looks from"), (HeadsChoice.key, "to")):
            keys, stored = param is HeadsChoice.key, url_state.get(param)
            options = ["", *(f"{of}:{value}" for of in kinds
                             for value in index.values(head.kind, of, keys=keys))]  # fmt: skip
            st.selectbox(
                label, [*options, *{stored}.difference(options)], width=300, format_func=label_of,
                accept_new_options=True,
                help="Choose a part of speech or a relation, or type a word. Put `token:` before "
                "a model token, as in `token:ing`.",
                **bound(param, key=f"{param.name}_box"),
            )  # fmt: skip
    chosen = HeadsChoice.read()
    answer = index(head, term_of(chosen.source), term_of(chosen.key))
    st.caption(
        f"{count(answer.n_looks, 'look')} in {count(answer.n_sentences, 'sentence')} out of "
        f"{len(opened.study.sentences):,} stored sentences, largest weights first:"
    )
    lines = st.container(gap=None, key="looks_where")
    for at, look in enumerate(answer.looks):
        _offer(lines, view, opened, head, look, f"where {at}", around=16)


def draw_agreement(study: Study) -> None:
    """Draw the measures' rank correlations as a closed table; its title says what they mean."""
    noise = study.notes.get("importance", {}).get("reliability", {})
    found = {
        pair: numbers for pair, numbers in agreement(study.importance, noise).items()
        if not math.isnan(numbers[0])
    }  # fmt: skip
    parts = []
    for follows, text, yes, maybe, no in (
        (False, "The measures {} on which heads matter", "agree", "may agree", "agree in part"),
        (True, "importance {} a head's sharpness", "follows", "may follow", "does not follow"),
    ):
        some = [numbers for pair, numbers in found.items() if ("sharpness" in pair) == follows]
        if some:
            _, low, high, _ = map(min, zip(*some, strict=True))
            parts.append(text.format(yes if low >= AGREE else no if high < AGREE else maybe))
    with st.expander("; ".join(parts) or "No other measure", icon=":material/compare_arrows:"):
        st.markdown(linked("Each line: the rank correlation of two measures.", "rank correlation"))
        st.table({
            "measures": [" and ".join(MEASURES[name].name for name in pair) for pair in found],
            "correlation": [signed(r) for r, *_ in found.values()],
            "95% interval": [f"{signed(at[1])} to {signed(at[2])}" for at in found.values()],
            "without noise": ["–" if math.isnan(r) else signed(r) for *_, r in found.values()],
        }, hide_index=True)  # fmt: skip


def draw_through_training(view: View, opened: Opened, role: Role, head: Head) -> None:
    """Draw a role's score during training, from snapshots studied on the same text."""
    ref = view.entry.ref.edited("")
    lines: dict[str, list[tuple[int, float]]] = {"score": [], "best rule": []}
    for snapshot in readable_history(ref.folder).snapshots:
        at = ref.after(snapshot.updates)
        for other in filter(None, (study_of(at, path.name) for path in studies(at))):
            same = other.study.corpus_digest == opened.study.corpus_digest
            there = other.study.role(role.name)
            if same and there and (finding := other.study.finding(there, head)):
                lines["score"].append((snapshot.updates, finding.score))
                lines["best rule"].append((snapshot.updates, finding.bar))
                break
    if len(lines["score"]) > 1:
        (first, before), *_, (last, after) = lines["score"]
        summary = f"{percent(before)} after {first:,} updates, {percent(after)} after {last:,}"
        st.markdown(f"**During training**: {summary}")
        chart = drawn(curves, lines, f"{role.title}, {head.off.place}", current_theme(), share=True)
        draw_chart(chart, summary, key="through_training")
