"""How the tokenizer of each side cuts its text: the pieces with their numbers, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from figures.exhibit import Exhibit
from figures.markdown import code
from figures.numbers import count
from transformer.measures.words import group_labels, word_groups
from transformer.text.tokenizer import Tokenizer
from transformer.trace.embeddings import Side as TextSide
from transformer.translator import Translator
from ui.compare.choice import Setup
from ui.compare.sides import CompareRoom, Download, Pair
from ui.core import url_state
from ui.core.side import Side, other
from ui.core.view import View
from ui.export.download import source_of, trace_for
from ui.tokens.cached import get_reading
from ui.tokens.choice import TokensChoice, side_now
from ui.tokens.downloads import make_pieces
from ui.tokens.exhibits import traced_pieces_exhibit
from ui.tokens.panels import draw_sentence, draw_texts
from ui.tokens.views import Reading, read_trace, tokenizer_of
from ui.work.cache import get_tracer

#: Words that are cut differently are named up to here.
_MOST_WORDS = 6


def _draw(pair: Pair) -> Download | None:
    """The pieces of both sides, then their numbers, then the words that are cut differently."""
    draw_texts(pair.controls)
    text = side_now()
    readings = {side.letter: _read(side, text) for side in pair.shown}

    def pieces(side: Side) -> None:
        reading = readings[side.letter]
        n = count(reading.n_pieces, "piece")
        st.markdown(f"{side.lead}{n} for {count(reading.n_words, 'word')}")
        label = f"{side.letter}: the {text} in {n}"
        token = url_state.get(side.own(TokensChoice.token))
        tokenizer = _tokenizer(side, text)
        draw_sentence(side, reading, tokenizer, -2 if token is None else token, label)

    def settings(side: Side) -> Mapping[str, str]:
        token = url_state.get(side.own(TokensChoice.token))
        return {
            TokensChoice.side.name: text,
            TokensChoice.token.name: "" if token is None else str(token),
        }

    pair.rows(pieces)
    pair.links(settings)
    if len(readings) == 2:
        _draw_numbers(pair, readings, text)
        st.markdown(apart(readings["A"], readings["B"]))
    return pair.download(lambda side: partial(_exhibit, side.view, text))


def _read(side: Side, text: TextSide) -> Reading:
    """Return a side's text in pieces; of a foreign model, what its trace says of them."""
    known = _tokenizer(side, text) is not None
    return get_reading(side.view, text) if known else read_trace(side.trace, text)


def _tokenizer(side: Side, text: TextSide) -> Tokenizer | None:
    model = get_tracer(side.view)
    return tokenizer_of(model, text) if isinstance(model, Translator) else None


def _lacks(setup: Setup, side: Side) -> str | None:
    text = side_now()
    return None if read_trace(side.trace, text).pieces else f"This model has no {text}."


def _draw_numbers(pair: Pair, readings: Mapping[str, Reading], text: TextSide) -> None:
    """Draw the counts of both sides, a row each."""
    names = (
        "pieces", "words", "pieces a word", "not in the vocabulary", "pieces in the vocabulary",
    )  # fmt: skip
    table: dict[str, Sequence[str]] = {"what": names}
    for side in pair.shown:
        reading, tokenizer = readings[side.letter], _tokenizer(side, text)
        n, words = reading.n_pieces, reading.n_words
        size = "unknown" if tokenizer is None else f"{tokenizer.vocab_size:,}"
        ratio = f"{n / max(1, words):.2f}"
        table[side.letter] = [str(n), str(words), ratio, str(len(reading.unknown)), size]
    st.table(table, border="horizontal", hide_index=True)


def apart(left: Reading, right: Reading) -> str:
    """Say which shared words are cut differently, in one sentence of Markdown."""
    one, two = _words(left), _words(right)
    shared = [word for word in one if word in two]
    differing = [word for word in shared if one[word] != two[word]]
    if not shared:
        return "The two have no word in common."
    if not differing:
        same = "Both cut" if len(shared) == 1 else f"Both cut all {len(shared)}"
        return f"{same} words that they share alike."
    named = "; ".join(
        f"{code(word, 24)} is {_cut(one[word])} in A and {_cut(two[word])} in B"
        for word in differing[:_MOST_WORDS]
    )
    more = f"; and {len(differing) - _MOST_WORDS} more" if len(differing) > _MOST_WORDS else ""
    words = "word is" if len(differing) == 1 else "words are"
    return f"**{len(differing)} of {len(shared)} shared {words} cut differently:** {named}{more}."


def _words(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Return each word's pieces; for a repeated word, those of its first occurrence."""
    pieces = [piece for at, piece in enumerate(reading.pieces) if at not in reading.special]
    groups = word_groups(pieces)
    found: dict[str, tuple[str, ...]] = {}
    for label, group in zip(group_labels(pieces, groups), groups, strict=True):
        found.setdefault(label, tuple(pieces[at] for at in group))
    return found


def _cut(pieces: Sequence[str]) -> str:
    return code("·".join(piece.replace("\u2581", "") or "\u2581" for piece in pieces), 40)


def _exhibit(view: View, text: TextSide) -> Exhibit:
    """The figure of one side. Needs no session."""
    if view.kind == "checkpoint":
        return make_pieces(view, text, -2)
    return traced_pieces_exhibit(trace_for(view), text, source_of(view))


ROOM = CompareRoom(
    "tokens", _draw, page="tokens", lacks=_lacks, everywhere=True,
    params=(TokensChoice.side, TokensChoice.token, other(TokensChoice.token)),
)  # fmt: skip
