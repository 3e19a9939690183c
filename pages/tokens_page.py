"""Tokens: from a sentence to pieces, ids, vectors, and vectors with positions."""

from typing import Any

import streamlit as st

from figures.labels import count, plain_token
from figures.tokens import ADDED, neighbour_bars, plane
from transformer.text.tokenizer import Tokenizer
from transformer.trace.position_vectors import TextSide
from ui.compare.texts import PIECES
from ui.core import url_state
from ui.core.glossary import term
from ui.core.layout import current_theme, draw_chart, section
from ui.core.view import Side, View
from ui.core.widgets import bound, choose_one
from ui.export.download import download_below
from ui.frame.page import Entry, Page
from ui.tokens import choice, exhibits, panels
from ui.tokens.views import tokenizer_of
from ui.work.desk import computed, drawn, get_translator
from ui.work.results import Computation

_VECTORS = {"both": "Both", "without": "Embedding", "with": "With position"}


def draw_neighbours(view: View, tokenizer: Tokenizer, side: TextSide, token: int) -> None:
    """Draw the nearest tokens in each embedding matrix."""
    number, pieces = url_state.get(choice.TokensChoice.count), tokenizer.pieces
    by_use = computed(view, choice.near_token(side, token))
    place = section(
        "A number becomes a vector", panels.about_neighbours(pieces[token], len(by_use))
    )
    place.slider("Neighbours", 3, 30, **bound(choice.TokensChoice.count), help=term("cosine"))
    for column, (use, nearest) in zip(place.columns(len(by_use)), by_use.items(), strict=True):
        names = [pieces[i] for i in nearest.ids]
        column.caption(f"{use.capitalize()} embedding")
        chart = drawn(neighbour_bars, nearest.ids, names, nearest.cosines, current_theme())
        leading = ", ".join(map(plain_token, names[:5]))
        draw_chart(chart, f"Nearest tokens in the {use} embedding: {leading}.", column)
    name = f"neighbours-of-{token}"
    download_below(place, view, name, exhibits.neighbours, token=token, count=number, side=side)


def draw_plane(view: View, tokenizer: Tokenizer, side: TextSide, token: int) -> None:
    """Draw the sentence's vectors with and without positions, on the same axes."""
    points = computed(view, choice.vectors(side))
    stack = "encoder" if side == "source" else "decoder"
    place = section("Its position is added", panels.about_plane(points, stack))
    left, right = place.columns([3, 2])
    choose_one("Vectors", choice.TokensChoice.shown, _VECTORS, left, label_visibility="visible")
    right.slider(
        "Frequent pieces behind them", 0, 2_000, step=100, **bound(choice.TokensChoice.background),
        help="The most frequent pieces of the vocabulary, without positions, on the same axes.",
    )  # fmt: skip
    chart = drawn(
        plane, points.content, points.entering, points.tokens, points.axes.shares.tolist(),
        current_theme(),
        added=next(name for name in ADDED if name == url_state.get(choice.TokensChoice.shown)),
        chosen=[i for i, id_ in enumerate(points.ids) if id_ == token],
        background=points.background,
        background_tokens=[tokenizer.pieces[i] for i in points.background_ids],
    )  # fmt: skip
    n = len(points.tokens)
    alt = f"Embeddings of {n} tokens in a plane, and where positions move them."
    draw_chart(chart, alt, place)
    download_below(place, view, f"{side}-embeddings-in-a-plane", exhibits.embeddings, side=side)


def first(shown: Side) -> list[Computation[Any]]:
    """Return the computations of the sentence and its vectors."""
    view, side = shown.view, choice.side_now()
    choice.TokensChoice.enter(view)
    tokenizer = tokenizer_of(get_translator(view), side)
    reading = choice.get_reading(view, side)
    token = choice.token_now(reading, tokenizer.vocab_size)
    return [
        choice.other_cuts_of(reading, tokenizer),
        choice.near_token(side, token),
        choice.vectors(side),
    ]


def draw(shown: Side) -> None:
    """Draw a sentence's way from letters to vectors with positions."""
    view = shown.view
    choice.TokensChoice.enter(view)
    side = choice.side_now()
    tokenizer, reading = tokenizer_of(get_translator(view), side), choice.get_reading(view, side)
    token = choice.token_now(reading, tokenizer.vocab_size)
    place = section("A sentence is cut into pieces", panels.about_pieces(reading, tokenizer))
    with place:
        tokens = count(len(reading.ids), "token")
        label = f"The {reading.side} in {tokens}; press one to follow it"
        panels.draw_sentence(shown, reading, tokenizer, token, label)
        panels.draw_texts(st.container())
    download_below(
        place, view, f"{reading.side}-pieces", exhibits.pieces, side=reading.side, token=token
    )
    panels.draw_cuts(view, reading, tokenizer)
    panels.draw_vocabulary(view, tokenizer, side, token)
    draw_neighbours(view, tokenizer, side, token)
    draw_plane(view, tokenizer, side, token)


PAGE = Page(
    "tokens", "Tokens", ":material/segment:", draw, first=first,
    entries=(Entry("The whole model", 2),),
    needs=("vocabulary",),
    choice=(choice.TokensChoice,),
    beside=(PIECES,),
)  # fmt: skip
