"""The grammar of trees: matching brackets, and all words of the sentence in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from transformer.trees.tree import CLOSE, OPEN, TAG
from transformer.types import Bools

_START = "▁"
#: Maximum number of phrases that open inside one another without a word between; in gold trees up
#: to 8.
MOST_OPENED = 10


@dataclass(frozen=True)
class Symbols:
    """The symbols of a vocabulary as [V] masks, and which pieces start a word."""

    #: opens, tags, close, end: openings, tags, the closing bracket, and `</s>`
    opens: Bools
    tags: Bools
    close: Bools
    end: Bools
    starts: Bools  # pieces that start a word


@lru_cache(maxsize=8)
def symbols_of(pieces: tuple[str, ...], eos_id: int) -> Symbols | None:
    """Return the tree symbols of a vocabulary, or None if they are missing."""
    if f"{_START}{CLOSE}" not in pieces:
        return None

    def those(mark: str) -> Bools:
        start = _START + mark
        matches = [piece.startswith(start) and len(piece) > len(start) for piece in pieces]
        return np.array(matches)

    close = np.array([piece == f"{_START}{CLOSE}" for piece in pieces])
    starts = np.array([piece.startswith(_START) for piece in pieces])
    return Symbols(those(OPEN), those(TAG), close, np.arange(len(pieces)) == eos_id, starts)


@dataclass(frozen=True)
class State:
    """State of an unfinished tree."""

    depth: int = 0  # open phrases
    word: int = 0  # the next word
    piece: int = 0  # number of its pieces in the output
    copying: bool = False  # True after the tag of the next word
    opened: int = 0  # empty phrases, opened since the last word or closing bracket
    whole: bool = False  # True after the phrase over all words


class TreeGrammar:
    """The trees over one sentence."""

    def __init__(self, symbols: Symbols, source: Sequence[int]) -> None:
        """Args: source: its token ids, without `</s>`."""
        self.symbols = symbols
        self.words: list[list[int]] = []
        for token in source:
            if symbols.starts[token] or not self.words:
                self.words.append([])
            self.words[-1].append(token)

    def start(self) -> State:
        """Return the state before the first symbol."""
        return State()

    def follow(self, state: object, token: int) -> State | None:
        """Return the state after one more token, or None if the token is not allowed."""
        assert isinstance(state, State)
        if not self.allowed(state)[token]:
            return None
        depth, word, piece = state.depth, state.word, state.piece
        if state.copying:
            if piece + 1 < len(self.words[word]):
                return State(depth, word, piece + 1, True)
            return State(depth, word + 1)
        if self.symbols.opens[token]:
            return State(depth + 1, word, opened=state.opened + 1)
        if self.symbols.close[token]:
            return State(depth - 1, word, whole=depth == 1)
        if self.symbols.tags[token]:
            return State(depth, word, copying=True)
        return state  # `</s>`

    def allowed(self, state: object) -> Bools:
        """Return a mask [V] of the tokens that may follow."""
        assert isinstance(state, State)
        symbols = self.symbols
        if state.copying:
            only: Bools = np.arange(len(symbols.end)) == self.words[state.word][state.piece]
            return only
        if state.whole or not self.words:
            return symbols.end
        if state.word == len(self.words):
            return symbols.close
        if state.depth == 0:
            return symbols.opens
        allowed = symbols.tags.copy()
        if state.opened < MOST_OPENED:
            allowed |= symbols.opens
        if not state.opened and state.depth > 1:
            allowed |= symbols.close
        return allowed
