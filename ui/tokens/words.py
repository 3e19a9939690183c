"""The words of the Tokens page, beside each picture."""

from __future__ import annotations

from figures.markdown import code
from figures.numbers import count
from transformer.measures.neighbours import COSINE_RULE
from transformer.measures.vocabulary import PieceKind, share_of_starts
from transformer.text.tokenizer import Tokenizer
from ui.tokens.views import Plane, Reading

#: The way from text to what the first layer gets, in the paper's terms, around `EQUATION`.
BEFORE_EQUATION = (
    "Sections 3.4 and 3.5 of the paper. A learned vocabulary cuts the sentence into pieces "
    "(section 5.1 used byte-pair encoding). Each piece is the number of a row in a matrix $E$ of "
    r"$V$ rows and $d_\text{model}$ columns. What enters the first layer at position $pos$ is"
)
EQUATION = r"x_{pos} = \sqrt{d_\text{model}}\;E_{id(pos)} + PE_{pos}"
AFTER_EQUATION = (
    "The paper shares one matrix between source, target and the layer before the softmax; a "
    "checkpoint may have separate ones."
)

_LEARNED = {
    "unigram": "It is a unigram vocabulary: every piece has a log-probability, in nats, shown "
    "below its number.",
    "bpe": "It is a byte-pair vocabulary: frequent neighbours were merged, one pair after another.",
    "merges": "It is a byte-pair vocabulary: neighbours are merged in the order of a list.",
    "word": "It holds whole words; what it lacks is unknown.",
    "char": "It holds single characters only.",
}

_CUTS = {
    "unigram": "The probability of a cut is the product of its pieces' (Kudo 2018), and the most "
    "probable one is taken. Percentages are shares of the probability of *all* cuts; listed is "
    "what is cut differently.",
    "bpe": "A byte-pair vocabulary ranks no cuts, so there is no list of the best. With merges "
    "left out at random, others come out (BPE dropout, Provilkov et al. 2020); listed is what is "
    "cut differently.",
    "merges": "A list of merges leaves nothing to choose.",
    "word": "A vocabulary of whole words leaves nothing to choose.",
    "char": "A vocabulary of single characters leaves nothing to choose.",
}


def about_pieces(reading: Reading, tokenizer: Tokenizer) -> str:
    """What is seen of the sentence in pieces."""
    per_word = reading.n_pieces / max(1, reading.n_words)
    text = (
        f"All that the model can read are {count(tokenizer.vocab_size, 'piece')}, learned from "
        f"text. {_LEARNED[tokenizer.kind]} `▁` stands for a space: a word starts.\n\n"
        f"Here: **{count(reading.n_pieces, 'piece')} for {count(reading.n_words, 'word')}**, "
        f"{per_word:.2f} a word."
    )
    if reading.unknown:
        text += " Dashed: a character without a piece of its own; " + (
            "it is spelled in bytes." if tokenizer.byte_ids else "the model reads `<unk>`."
        )
    if reading.more_changes:
        text += f" Normalisation made {count(reading.more_changes, 'further change')}."
    if not reading.own_cut:
        text += " The model wrote these pieces; the vocabulary would cut their text otherwise."
    return text


def about_cuts(reading: Reading, tokenizer: Tokenizer) -> str:
    """What other cuts are."""
    text = _CUTS[tokenizer.kind]
    if reading.side == "source" and tokenizer.kind in ("unigram", "bpe"):
        text += " **Click one to have it translated.**"
    return text


def about_vocabulary(tokenizer: Tokenizer, kinds: tuple[PieceKind, ...], token: int) -> str:
    """What a vocabulary holds, and the piece that is followed."""
    return (
        "The model gets each piece's number in this list. "
        + (
            "Each is a whole word or the end of one, unless a mark (`@@`) says that it goes on. "
            if tokenizer.kind in ("merges", "word")
            else f"**{share_of_starts(kinds):.0%} of the pieces start with** `▁` and can stand as "
            "a whole word; the others go on with one. "
        )
        + "Find pieces by text or number (a space finds `▁`), and "
        "click a row to follow its piece.\n\n"
        f"Now: {code(tokenizer.pieces[token])}, number {token}."
    )


def about_neighbours(piece: str, n_matrices: int) -> str:
    """What near means."""
    shared = (
        "One matrix serves as source, target and output embedding here (section 3.4)."
        if n_matrices == 1
        else "This checkpoint has separate matrices; a token may have other neighbours in each."
    )
    return (
        "The number picks a row of the embedding matrix, which training has filled. Rows near "
        f"that of {code(piece)} belong to tokens that are used alike. {shared}\n\n{COSINE_RULE} "
        "The token itself and `<pad>` are left out."
    )


def about_plane(plane: Plane, stack: str) -> str:
    """What the plane shows, and how much of it."""
    scaled = (
        f"The model multiplies embeddings by √d_model = {plane.scale:.1f}"
        if plane.scale != 1
        else "This model takes embeddings as they are"
    )
    text = (
        f"{scaled} and adds the position's vector. Circles are embeddings; an arrow leads to what "
        f"enters the {stack}. On average an embedding is {plane.content_norm:.1f} long and a "
        f"position {plane.position_norm:.1f}."
    )
    if plane.note:
        text += f" {plane.note}"
    repeated = [token for token in dict.fromkeys(plane.tokens) if plane.tokens.count(token) > 1]
    if repeated:
        text += (
            f" {code(repeated[0])} stands here {plane.tokens.count(repeated[0])} times: one "
            "embedding, and different vectors once positions are added."
        )
    return (
        f"{text}\n\nThe axes are the two directions in which these vectors, with and without "
        "positions, vary most (principal components, computed exactly). They hold "
        f"**{plane.axes.shares.sum():.0%}** of the variance; the rest is out of sight."
    )
