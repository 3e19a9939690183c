"""Both translations on Compare, and differences of scores, segmentations and positions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit, Panel
from figures.labels import code, plain, shorten, signed
from transformer.measures.compare import not_shared, parting, total_log_prob
from transformer.measures.words import Groups, group_labels, word_groups
from transformer.text.marks import unmarked
from transformer.trace.position_vectors import trained_positions
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.compare.choice import CompareChoice, can_follow
from ui.compare.exhibits import difference_exhibit
from ui.components.mount import show
from ui.components.strip import strip_component
from ui.core import url_state
from ui.core.doubts import cut_in_short, first_words, headline
from ui.core.glossary import linked, term
from ui.core.view import Side, other
from ui.core.widgets import bound, choose_one, draw_text
from ui.export.download import figure_for
from ui.frame.beside import Beside, Download, Maker, Pair, Setup, both_of
from ui.frame.editing import draw_changes, said_of_changes
from ui.frame.page import link_to
from ui.frame.steering import why_link
from ui.positions.exhibits import STACKS, OwnPositions, added_positions, own_positions
from ui.positions.views import PositionsChoice, draw_positions
from ui.tokens import panels
from ui.tokens.choice import TokensChoice, side_now
from ui.tokens.panels import reading_of_side
from ui.tokens.views import Reading
from ui.work.desk import get_translator

#: Maximum number of differently split words named.
_MOST_WORDS = 6


def _compare_pieces(pair: Pair) -> Download | None:
    download = both_of(pair, _pieces_figure, "Tokens")
    if len(pair.shown) < 2:
        return download
    what = "pieces", "words", "pieces per word", "not in the vocabulary", "vocabulary size"
    table: dict[str, Sequence[str]] = {"what": what}
    readings = []
    for side in pair.shown:
        reading, tokenizer = reading_of_side(side)
        n, words = reading.n_pieces, reading.n_words
        size = "unknown" if tokenizer is None else f"{tokenizer.vocab_size:,}"
        ratio = f"{n / max(1, words):.2f}"
        table[side.letter] = [str(n), str(words), ratio, str(len(reading.unknown)), size]
        readings.append(reading)
    st.table(table, border="horizontal", hide_index=True)
    st.markdown(apart(*readings))
    return download


def apart(left: Reading, right: Reading) -> str:
    """Return a Markdown sentence about shared words that are split differently."""
    one, two = _words(left), _words(right)
    shared = [word for word in one if word in two]
    differing = [word for word in shared if one[word] != two[word]]
    if not shared:
        return "The texts have no word in common."
    if not differing:
        if len(shared) == 1:
            return "The one shared word is split in the same way."
        return f"All {len(shared)} shared words are split in the same way."
    named = "; ".join(
        f"{code(word, 24)} is {_cut(one[word])} in A and {_cut(two[word])} in B"
        for word in differing[:_MOST_WORDS]
    )
    more = f"; and {len(differing) - _MOST_WORDS} more" if len(differing) > _MOST_WORDS else ""
    words = "word is" if len(differing) == 1 else "words are"
    return f"**{len(differing)} of {len(shared)} shared {words} split differently:** {named}{more}."


def _words(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Return pieces by word, at the word's first occurrence."""
    pieces = [piece for at, piece in enumerate(reading.pieces) if at not in reading.special]
    groups = word_groups(pieces)
    words: dict[str, tuple[str, ...]] = {}
    for label, group in zip(group_labels(unmarked(pieces), groups), groups, strict=True):
        words.setdefault(label, tuple(pieces[at] for at in group))
    return words


def _cut(pieces: Sequence[str]) -> str:
    return code("·".join(piece.replace("\u2581", "") or "\u2581" for piece in pieces), 40)


def _pieces_figure(side: Side) -> Maker:
    return partial(panels.pieces_figure, side.view, side_now())


def _draw_controls(pair: Pair) -> None:
    pair.controls.slider(
        "Positions", 8, 512, help=term("positional encoding"), width=220,
        **bound(PositionsChoice.length),
    )  # fmt: skip
    choose_one("Stack", PositionsChoice.side, list(STACKS), pair.controls)


def _own(side: Side) -> OwnPositions:
    stack = STACKS[url_state.get(PositionsChoice.side)]
    return own_positions(get_translator(side.view), stack, url_state.get(PositionsChoice.length))


def _draw_table(side: Side) -> None:
    own = _own(side)
    st.markdown(f"{side.lead}{plain(own.about)}")
    count, width = own.table.shape
    draw_positions(
        st.container(), own.table, side.key("positions"),
        f"{side.letter}: vectors of {count} positions in {width} dimensions.",
        height=330, trained=trained_positions(side.view.entry.metrics),
    )  # fmt: skip


def _positions_figure(side: Side) -> Maker:
    chosen = PositionsChoice.read()
    return partial(figure_for, side.view, added_positions, stack=chosen.side, n=chosen.length)


def _compare_positions(pair: Pair) -> Download | None:
    """Draw the difference between tables of equal size, or the reason why there is none."""
    tables = [_own(side).table for side in pair.shown]
    title = f"{url_state.get(PositionsChoice.side)} positions"
    download = both_of(pair, _positions_figure, title, 2 * sum(table.size for table in tables))
    if download is None or len(tables) < 2:
        return download
    one, two = tables
    why = why_not_subtracted(one, two)
    download = replace(download, make=partial(_figure, download.make, apart=not why))
    if why:
        st.info(why, icon=":material/join_inner:")
        return download
    apart = one - two
    most = float(np.abs(apart).max())
    if most == 0:
        st.markdown("**A − B:** all position vectors are equal.")
    else:
        st.markdown(f"**A − B:** position vectors differ by up to {most:.3g}.")
        draw_positions(
            st.container(), apart, "positions_difference",
            f"A's position vectors minus B's, up to {most:.3g}.", height=330, limit=most,
        )  # fmt: skip
    return download


def why_not_subtracted(left: Floats, right: Floats) -> str:
    """Return the reason why two tables [n, d] cannot be subtracted, or ""."""
    if left.shape[1] != right.shape[1]:
        return f"Vectors of {left.shape[1]} and {right.shape[1]} dimensions cannot be subtracted."
    if len(left) != len(right):
        shorter = "A" if len(left) < len(right) else "B"
        ends = min(len(left), len(right))
        return (
            f"{shorter} has only {ends} positions. Choose {ends} or fewer to subtract the tables."
        )
    return ""


def _figure(make: Maker, *, apart: bool) -> Exhibit:
    both = replace(make(), columns=2)
    if not apart:
        return both
    first = both.parts[0]
    assert isinstance(first, Panel)
    values = both.arrays["positions_a"] - both.arrays["positions_b"]
    panel = replace(first, title="A − B", values=values, quantity="difference")
    return difference_exhibit(both, panel, "positions")


def _lacks(side: Side) -> str | None:
    if side.view.kind == "checkpoint":
        return None
    return f"Position vectors require a Headlight model; {side.view.title} is not one."


PIECES = Beside(
    (panels.draw_pieces,), _pieces_figure, above=lambda pair: panels.draw_texts(pair.controls),
    below=_compare_pieces, settings=panels.pieces_settings, lacks=panels.lacks_text,
    everywhere=True, params=(TokensChoice.side, TokensChoice.token, other(TokensChoice.token)),
)  # fmt: skip
POSITIONS = Beside(
    (_draw_table,), _positions_figure, above=_draw_controls, below=_compare_positions,
    lacks=_lacks, params=(PositionsChoice.length, PositionsChoice.side),
)  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A side's translation in words, or in tokens if both texts are single words."""

    words: tuple[str, ...]  # joined pieces, without `</s>`
    log_probs: tuple[float, ...]  # per word, summed over pieces, in nats; NaN if unknown
    groups: Groups  # piece positions of each word among the predicted tokens
    total: float  # log p of all predicted tokens, including `</s>`; NaN if unknown
    tokens: int  # number of predicted tokens
    unit: str = "word"  # unit of `words` and `source`, "word" or "token"
    source: tuple[str, ...] = ()  # source words, without `</s>`


def text_of(trace: Trace, unit: str = "word") -> Text:
    """Return the translation in a trace, generated or followed."""
    predicted = trace.predicted_tokens
    written = predicted[: trace.n_words]
    groups = word_groups(written) if unit == "word" else tuple((at,) for at in range(len(written)))
    total, scores = total_log_prob(trace), trace.log_probs.astype("f8")
    if math.isnan(total):
        scores = np.full(len(predicted), np.nan)
    log_probs = tuple(float(scores[list(group)].sum()) for group in groups)
    source = tuple(
        token for at, token in enumerate(trace.src_tokens) if at not in trace.src_special
    )
    if unit == "word":
        source = group_labels(unmarked(source), word_groups(source))
    words = group_labels(unmarked(written), groups)
    return Text(words, log_probs, groups, total, len(predicted), unit, source)


def where_they_differ(one: Text, other: Text, *, followed: bool = False) -> str:
    """Return a Markdown sentence about the first difference; `followed` if B follows A."""
    if not one.words and not other.words:
        return "Neither side writes anything."
    if not one.words or not other.words:
        return f"Only {'A' if one.words else 'B'} writes anything."
    at = parting(one.words, other.words)
    if at is None:
        gap = one.total - other.total
        same = "B follows A’s words" if followed else "Both write the same words"
        if math.isnan(gap):
            return f"{same}."
        if abs(gap) < 5e-4:
            return f"{same}, with the same probability."
        likelier = "A" if gap > 0 else "B"
        return f"{same}; they are more probable under {likelier}, by {abs(gap):.2f} nats."
    start = f"They diverge at {one.unit} {at + 1}" if at else f"Even the first {one.unit} differs"
    return f"{start}: A writes {_word(one, at)}, B {_word(other, at, '')}."


def _word(text: Text, at: int, prefix: str = "log p ") -> str:
    if at >= len(text.words):
        return "nothing more"
    word, score = code(text.words[at], 16), text.log_probs[at]
    return word if math.isnan(score) else f"{word} ({prefix}{signed(score)})"


def draw_texts(setup: Setup, sides: tuple[Side, Side]) -> None:
    """Draw both texts side by side."""
    left, right = sides
    scored = url_state.get(CompareChoice.scored)
    if _of_edits(setup) and not scored:
        draw_changes(right.view, right.trace, left.trace)
        _draw_cut(right.trace)
    else:
        texts, columns = _texts(sides), st.columns(2, gap="large")
        for side, text, other, column in zip(sides, texts, texts[::-1], columns, strict=True):
            with column.container(key=f"headline_compare_{side.letter}", gap=None):
                (_draw_whole if scored else _draw_line)(setup, side, text, other)


def _of_edits(setup: Setup) -> bool:
    return setup.pairing == "edits" and not setup.follow


def _texts(sides: tuple[Side, Side]) -> tuple[Text, Text]:
    one, two = (text_of(side.trace) for side in sides)
    if max(len(one.words), len(two.words)) <= 1:  # a string of letters is one word
        one, two = (text_of(side.trace, "token") for side in sides)
    return one, two


def draw_difference(setup: Setup, sides: tuple[Side, Side]) -> None:
    """Draw a sentence about the first difference, and the switches of both texts."""
    left, right = sides
    one, two = _texts(sides)
    place = st.container(key="compare_where")
    summary, switches = place.columns([4, 3], vertical_alignment="center")
    summary.markdown(
        said_of_changes(right.view, right.trace, left.trace)
        if _of_edits(setup)
        else linked(where_they_differ(one, two, followed=setup.follow), "log p", "nats")
    )
    if (
        left.view.kind == "checkpoint" and left.view.entry.ref == right.view.entry.ref
        and (at := parting(*(side.trace.predicted_ids for side in sides))) is not None
        and at < min(len(side.trace.predicted_ids) for side in sides)
    ):  # fmt: skip
        pair = [(side.trace.predicted_ids[at], side.trace.predicted_tokens[at]) for side in sides]
        with summary:
            link_to(*why_link(left.trace, left.trace.predicted_ids[:at], *pair))
    with switches.container(horizontal=True, horizontal_alignment="right"):
        st.toggle(
            "Token by token", **bound(CompareChoice.scored),
            help=linked(
                "Both full texts, each token with its log-probability (log p) in nats: 0 is "
                "certain, −0.69 is a probability of 50%.", "log p", "nats",
            ),
        )  # fmt: skip
        differ = parting(one.words, two.words) is not None
        if setup.follow or (differ and left.trace.text.strip() and can_follow(right.view)):
            st.toggle(
                "B follows A’s translation", **bound(CompareChoice.follow),
                help=linked(
                    "Teacher forcing: B reads A’s translation instead of its own, so that both "
                    "have the same rows.",
                    "teacher forcing",
                ),
            )  # fmt: skip


def _draw_line(setup: Setup, side: Side, text: Text, other: Text) -> None:
    if setup.by_place:
        _draw_source(side, text, other)
    if not side.trace.predicted_tokens:
        st.caption(f"**{side.letter}** writes nothing: it is an encoder.")
        return
    part, n_words = parting(text.words, other.words), first_words(side.trace, text.words)
    words = (*text.words[:n_words], "…") if n_words < len(text.words) else text.words
    last = max(len(words) - 1, 0)  # if this text ends before the other
    differing = not_shared(text.words, other.words)[0]
    line = strip_component(
        words or ("(empty)",), (), [at for at in differing if at < n_words],
        parts_at=None if part is None else min(part, last),
        label=f"What {side.letter} writes", lead="→" if setup.by_place else side.letter,
    )  # fmt: skip
    show(line, key=f"compare_line_{side.letter}")
    _draw_cut(side.trace)


def _draw_source(side: Side, text: Text, other: Text, *, lead: bool = True) -> None:
    changed = not_shared(text.source, other.source)[0]
    line = strip_component(
        text.source, (), changed, label=f"Sentence {side.letter} in words",
        parts_at=min(changed, default=None), lead=side.letter if lead else "",
    )  # fmt: skip
    show(line, key=f"compare_source_{side.letter}")


def _draw_whole(setup: Setup, side: Side, text: Text, other: Text) -> None:
    trace, part = side.trace, parting(text.words, other.words)
    st.markdown(f"{side.lead}{_name(setup, side)}")
    if setup.by_place:
        _draw_source(side, text, other, lead=False)
    draw_text(headline(trace) or "(empty)", side.view.spoken[1])
    _draw_cut(trace)
    if not trace.predicted_tokens:
        st.caption("This model is an encoder and writes nothing.")
        return
    differing = [at for word in not_shared(text.words, other.words)[0] for at in text.groups[word]]
    line = strip_component(
        trace.predicted_tokens, () if math.isnan(text.total) else trace.log_probs.tolist(),
        differing,
        parts_at=None if part is None or part >= len(text.groups) else text.groups[part][0],
        label=f"What {side.letter} writes, token by token, with log-probabilities",
    )  # fmt: skip
    show(line, key=f"compare_strip_{side.letter}")
    if math.isnan(text.total):
        return
    numbers = (
        f"score {signed(trace.score, 3)} · log p {signed(text.total)} nats over {text.tokens} "
        f"tokens · {signed(text.total / max(1, len(text.words)))} per {text.unit}"
    )
    st.caption(linked(numbers, "score", "log p", "nats"))


def _draw_cut(trace: Trace) -> None:
    if cut := cut_in_short(trace):
        st.caption(f":material/content_cut: {cut}")


def _name(setup: Setup, side: Side) -> str:
    named = plain(side.view.title)
    if setup.by_place:
        named = f"{'first' if side.letter == 'A' else 'second'} sentence, {named}"
    if side.follows:
        return f"{named}, following A's translation"
    if side.view.target is not None:
        return f"{named}, following {code(shorten(side.view.target, 40))}"
    return named
