"""Downloads of the Tokens page, one below each picture."""

from __future__ import annotations

from collections.abc import Callable

from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import Exhibit
from transformer.text.tokenizer import Tokenizer
from transformer.trace.embeddings import Side
from ui.core.view import View
from ui.export.download import download_button, source_of
from ui.tokens.cached import near_token, reading_of, vectors
from ui.tokens.exhibits import (
    lengths_exhibit,
    neighbours_exhibit,
    pieces_exhibit,
    plane_exhibit,
)
from ui.tokens.views import tokenizer_of
from ui.work.models import translator
from ui.work.results import result_of


def offer_pieces(place: DeltaGenerator, view: View, side: Side, token: int) -> None:
    """Draw the download of the sentence in pieces."""
    _button(place, lambda: make_pieces(view, side, token), "take_pieces", f"{side}-pieces")


def make_pieces(view: View, side: Side, token: int) -> Exhibit:
    """Return the figure of the sentence in pieces; needs no session."""
    reading = result_of(view.request, reading_of(view, side))
    return pieces_exhibit(reading, _tokenizer(view, side), token, source_of(view))


def offer_lengths(place: DeltaGenerator, view: View, side: Side) -> None:
    """Draw the download of the lengths of pieces."""

    def make() -> Exhibit:
        return lengths_exhibit(_tokenizer(view, side), side, source_of(view))

    _button(place, make, "take_lengths", "vocabulary-lengths")


def offer_neighbours(place: DeltaGenerator, view: View, side: Side, token: int, count: int) -> None:
    """Draw the download of a token's neighbours."""

    def make() -> Exhibit:
        found = result_of(view.request, near_token(side, token, count))
        pieces = _tokenizer(view, side).pieces
        return neighbours_exhibit(found, pieces, token, count, source_of(view))

    _button(place, make, "take_neighbours", f"neighbours-of-{token}")


def offer_plane(place: DeltaGenerator, view: View, side: Side, n_background: int) -> None:
    """Draw the download of the embeddings in their plane."""

    def make() -> Exhibit:
        found = result_of(view.request, vectors(side, n_background))
        return plane_exhibit(found, side, source_of(view))

    _button(place, make, "take_plane", f"{side}-embeddings-in-a-plane")


def _button(place: DeltaGenerator, make: Callable[[], Exhibit], key: str, name: str) -> None:
    """Draw a download at the end of a picture's container."""
    with place.container(horizontal=True, horizontal_alignment="right"):
        download_button(make, key=key, name=name)


def _tokenizer(view: View, side: Side) -> Tokenizer:
    return tokenizer_of(translator(view), side)
