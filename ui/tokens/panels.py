"""Sections of the Tokens page: pieces, other segmentations, and the vocabulary."""

from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import Exhibit
from figures.labels import code, count, plain_token, signed
from figures.tokens import length_bars
from transformer.measures.vocabulary import find, length_counts, piece_length
from transformer.text.tokenizer import Tokenizer
from transformer.trace.position_vectors import TextSide
from transformer.translator import Translator
from ui.components.cut import cuts_component, pieces_component
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.layout import current_theme, draw_chart, section
from ui.core.side import Side
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.export.download import download_below, figure_for
from ui.frame.beside import Changes
from ui.tokens import words
from ui.tokens.choice import TokensChoice, get_kinds, get_reading, other_cuts_of, side_now
from ui.tokens.exhibits import pieces as in_pieces
from ui.tokens.exhibits import traced_pieces, vocabulary
from ui.tokens.views import Reading, cuts_shown, pieces_shown, read_trace, tokenizer_of
from ui.work.desk import computed, drawn, get_tracer
from ui.work.results import Computation

#: Maximum number of rows in the list of pieces.
_MOST_ROWS = 500
_TEXTS = {"source": "Source sentence", "translation": "Translation"}
_SCORES = {"unigram": "log p", "bpe": "rank", "merges": "rank", "word": "rank", "char": "log p"}


def draw_texts(where: DeltaGenerator) -> None:
    """Draw the text selector."""
    choose_one("Text", TokensChoice.side, _TEXTS, where)


def draw_sentence(
    side: Side, reading: Reading, tokenizer: Tokenizer | None, token: int, label: str
) -> None:
    """Draw the text as clickable pieces, with `token` outlined; `label` is for screen readers."""
    param = side.own(TokensChoice.token)
    pieces = pieces_component(
        pieces_shown(reading, tokenizer), reading.changed, chosen=token, label=label
    )
    show(pieces, key=side.key("pieces"), on_choose=partial(url_state.put, param))


def draw_cuts(view: View, reading: Reading, tokenizer: Tokenizer) -> None:
    """Draw other segmentations of the text, and the translation of the chosen one."""
    place = section("Other ways to split this text", words.about_cuts(reading, tokenizer))
    if tokenizer.kind == "bpe":
        left, right = place.columns(2)
        left.slider(
            "Share of merges left out", 0.0, 1.0, step=0.05, **bound(TokensChoice.dropout),
            help=term("merge"),
        )  # fmt: skip
        right.number_input(
            "Seed of the draws", 0, 9_999, **bound(TokensChoice.cut_seed), help=term("seed")
        )
    cuts = computed(view, other_cuts_of(reading, tokenizer))
    if len(cuts) < 2:
        place.caption("There is no other way to split it.")
        return
    chosen = min(url_state.get(TokensChoice.cut), len(cuts)) - 1
    with place:
        shown = cuts_component(cuts_shown(cuts), chosen=chosen, label="Ways to split the text")
        show(shown, key="cuts", on_choose=lambda at: url_state.put(TokensChoice.cut, at + 1))
        if chosen > 0 and reading.side == "source":
            ids, beam, alpha = [cuts[0].ids, cuts[chosen].ids], view.beam_size, view.alpha
            work: Computation[Any] = Computation(
                "recut", tuple(ids), lambda model, trace: model.translate(ids, beam, alpha)
            )
            for number, translation in zip((1, chosen + 1), computed(view, work), strict=True):
                log_prob = linked(f"log p {signed(sum(translation.log_probs), 2)}", "log p")
                st.markdown(f"From split {number}: {code(translation.text, 200)} · {log_prob}")


def draw_vocabulary(view: View, tokenizer: Tokenizer, side: TextSide, token: int) -> None:
    """Draw the vocabulary as a searchable list, and its piece lengths."""
    kinds, pieces = get_kinds(view, tokenizer, side), tokenizer.pieces
    query = url_state.get(TokensChoice.find)
    place = section("A piece is a number", words.about_vocabulary(tokenizer, kinds, token))
    left, right = place.columns([5, 4], gap="medium")
    left.text_input("Find", placeholder="text or number", max_chars=100, **bound(TokensChoice.find))
    matches = find(pieces, query)
    listed = matches[:_MOST_ROWS]
    table = {
        "id": listed,
        "piece": [plain_token(pieces[i], 40) for i in listed],
        "length": [piece_length(pieces[i]) for i in listed],
        _SCORES[tokenizer.kind]: [round(tokenizer.scores[i], 3) for i in listed],
    }
    key = f"vocabulary_{view.checkpoint}_{query}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(listed):
            url_state.put(TokensChoice.token, listed[rows[0]])

    left.dataframe(
        table, hide_index=True, height=215, key=key, on_select=choose, selection_mode="single-row"
    )
    cut = f", the first {_MOST_ROWS} listed" if len(matches) > _MOST_ROWS else ""
    unit = "; log p in nats" if _SCORES[tokenizer.kind] == "log p" else ""
    left.caption(linked(f"{len(matches):,} of {len(pieces):,} pieces{cut}{unit}", "log p", "nats"))
    alt = "Number of word-initial and word-internal pieces by length."
    chart = drawn(length_bars, length_counts(pieces, kinds), current_theme())
    draw_chart(chart, alt, right)
    download_below(place, view, "vocabulary-lengths", vocabulary, side=side)


def reading_of_side(side: Side) -> tuple[Reading, Tokenizer | None]:
    """Return a side's text in pieces and its tokenizer; from the trace for a foreign model."""
    text, model = side_now(), get_tracer(side.view)
    if isinstance(model, Translator):
        return get_reading(side.view, text), tokenizer_of(model, text)
    return read_trace(side.trace, text), None


def draw_pieces(side: Side) -> None:
    """Draw one side's pieces in Compare."""
    reading, tokenizer = reading_of_side(side)
    n, token = count(reading.n_pieces, "piece"), url_state.get(side.own(TokensChoice.token))
    st.markdown(f"{side.lead}{n} for {count(reading.n_words, 'word')}")
    label = f"{side.letter}: the {side_now()} in {n}"
    draw_sentence(side, reading, tokenizer, -2 if token is None else token, label)


def pieces_settings(side: Side) -> Changes:
    """Return settings for a link to one side's pieces."""
    token = side.own(TokensChoice.token)
    return {TokensChoice.side: side_now(), TokensChoice.token: url_state.get(token)}


def pieces_figure(view: View, text: TextSide) -> Exhibit:
    """Return one side's figure; it needs no session."""
    if view.kind == "checkpoint":
        return figure_for(view, in_pieces, side=text, token=-1)
    return figure_for(view, traced_pieces, side=text)


def lacks_text(side: Side) -> str | None:
    """Return the reason why a side has no pieces, or None."""
    text = side_now()
    return None if read_trace(side.trace, text).pieces else f"This model has no {text}."
