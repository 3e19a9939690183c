"""Sections of the Tokens page, and the texts beside its pictures."""

from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import Exhibit
from figures.labels import code, count, plain_token, signed
from figures.tokens import length_bars
from transformer.measures.vocabulary import (
    COSINE_RULE,
    PieceKind,
    find,
    length_counts,
    piece_length,
    share_of_starts,
)
from transformer.text.tokenizer import Tokenizer
from transformer.trace.position_vectors import TextSide
from transformer.translator import Translator
from ui.components.cut import cuts_component, pieces_component
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.layout import current_theme, draw_chart, section
from ui.core.view import Side, View
from ui.core.widgets import bound, choose_one
from ui.export.download import download_below, figure_for
from ui.frame.beside import Changes
from ui.tokens.choice import TokensChoice, get_kinds, get_reading, other_cuts_of, side_now
from ui.tokens.exhibits import pieces as in_pieces
from ui.tokens.exhibits import traced_pieces, vocabulary
from ui.tokens.views import Plane, Reading, cuts_shown, pieces_shown, read_trace, tokenizer_of
from ui.work.desk import computed, drawn, get_tracer
from ui.work.results import Computation

_LEARNED = {
    "unigram": "This is a unigram vocabulary: every piece has a log-probability, in nats, shown "
    "below its id.",
    "bpe": "This is a byte-pair vocabulary: frequent neighbours were merged, pair by pair.",
    "merges": "This is a byte-pair vocabulary: neighbours are merged in the order of a list.",
    "word": "It holds whole words; all others are unknown.",
    "char": "It holds single characters only.",
}

_CUTS = {
    "unigram": "The probability of a split is the product of its pieces' (Kudo 2018), and the most "
    "probable one is taken. Percentages are shares of the probability of *all* splits. Each row "
    "shows only what it splits differently.",
    "bpe": "A byte-pair vocabulary does not rank splits, so there is no list of the best. Leaving "
    "out merges at random gives others (BPE dropout, Provilkov et al. 2020). Each row shows only "
    "what it splits differently.",
    "merges": "A list of merges leaves no choice.",
    "word": "A vocabulary of whole words leaves no choice.",
    "char": "A vocabulary of single characters leaves no choice.",
}


def about_pieces(reading: Reading, tokenizer: Tokenizer) -> str:
    """Explain the pieces of the text."""
    per_word = reading.n_pieces / max(1, reading.n_words)
    text = (
        f"The model reads only the {count(tokenizer.vocab_size, 'piece')} in its vocabulary, "
        f"learned from text. {_LEARNED[tokenizer.kind]} `▁` is a space and starts a word.\n\n"
        f"Here: **{count(reading.n_pieces, 'piece')} for {count(reading.n_words, 'word')}**, "
        f"{per_word:.2f} per word."
    )
    if reading.unknown:
        text += " Dashed: a character that is not a piece, " + (
            "spelled in bytes." if tokenizer.byte_ids else "read as `<unk>` and marked `⁇`."
        )
    if reading.more_changes:
        text += f" Normalisation made {count(reading.more_changes, 'further change')}."
    if not reading.own_cut:
        text += " The model wrote these pieces; the tokenizer would split their text differently."
    return linked(text, "log-probability", "nats", "`▁`")


def about_cuts(reading: Reading, tokenizer: Tokenizer) -> str:
    """Explain alternative segmentations."""
    text = _CUTS[tokenizer.kind]
    if reading.side == "source" and tokenizer.kind in ("unigram", "bpe"):
        text += " **Choose one to translate it.**"
    return text


def about_vocabulary(tokenizer: Tokenizer, kinds: tuple[PieceKind, ...], token: int) -> str:
    """Describe the vocabulary and the selected piece."""
    return (
        "The model reads each piece as an id, its position in this list. "
        + (
            "Each piece is a whole word or its end, unless `@@` marks that the word continues. "
            if tokenizer.kind in ("merges", "word")
            else "Each piece is a single character. "
            if tokenizer.kind == "char"
            else f"**{share_of_starts(kinds):.0%} of the pieces "
            + ("end with** `▁`" if "ends a word" in kinds else "start with** `▁`")
            + " and can stand as a whole word; the others are parts of one. "
        )
        + "Find pieces by text or id (a space finds `▁`), and choose a row to select its piece.\n\n"
        f"Selected: {code(tokenizer.pieces[token])}, id {token}."
    )


def about_neighbours(piece: str, n_matrices: int) -> str:
    """Explain embedding neighbours."""
    shared = (
        "One matrix serves as source, target and output embedding here (section 3.4)."
        if n_matrices == 1
        else "This model has separate matrices; a token may have different neighbours in each."
    )
    return (
        "The id selects a row of the embedding matrix, learned in training. Rows near the row of "
        f"{code(piece)} belong to tokens with similar uses. {shared}\n\n{COSINE_RULE} "
        "The token itself and `<pad>` are left out."
    )


def about_plane(plane: Plane, stack: str) -> str:
    """Explain the embedding plane and its share of variance."""
    scaled = (
        f"The model multiplies embeddings by √d_model = {plane.scale:.1f}"
        if plane.scale != 1
        else "This model does not scale embeddings"
    )
    text = (
        f"{scaled} and adds the position's vector. Circles are embeddings; arrows lead to the "
        f"input of the {stack}. The mean length is {plane.content_norm:.1f} for embeddings and "
        f"{plane.position_norm:.1f} for positions."
    )
    if plane.note:
        text += f" {plane.note}"
    repeated = [token for token in dict.fromkeys(plane.tokens) if plane.tokens.count(token) > 1]
    if repeated:
        text += (
            f" {code(repeated[0])} occurs {plane.tokens.count(repeated[0])} times: one embedding, "
            "but different vectors once positions are added."
        )
    return (
        f"{text}\n\nThe axes are the two directions in which these vectors, with and without "
        "positions, vary most (exact principal components). They explain "
        f"**{plane.axes.shares.sum():.0%}** of the variance."
    )


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
    place = section("Other ways to split this text", about_cuts(reading, tokenizer))
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
    place = section("A piece is a number", about_vocabulary(tokenizer, kinds, token))
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
    draw_chart(drawn(length_bars, length_counts(pieces, kinds), current_theme()), alt, right)
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
    """Return why a side has no pieces, or None."""
    text = side_now()
    return None if read_trace(side.trace, text).pieces else f"This model has no {text}."
