"""Texts beside each picture on the Tokens page."""

from __future__ import annotations

from figures.labels import code, count
from transformer.measures.vocabulary import COSINE_RULE, PieceKind, share_of_starts
from transformer.text.tokenizer import Tokenizer
from ui.core.glossary import linked
from ui.tokens.views import Plane, Reading

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
