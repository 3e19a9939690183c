"""Tokenizers that number their pieces by a table: SentencePiece cuts, the vocabulary counts.

Models trained elsewhere often have one SentencePiece model for each language and a vocabulary,
joint or one a side, whose order has nothing to do with SentencePiece's own ids. A piece that the
table lacks is unknown, whatever SentencePiece calls it. `transformer.text.rules` has tokenizers
that cut by other rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from transformer.config import ModelConfig
from transformer.text.layout import files_of
from transformer.text.normalise import Preparation
from transformer.text.tokenizer import Tokenized, Tokenizer, TokenizerError, clean

#: A language's tag, as OPUS models write it; longer ones are none.
_TAG = re.compile(r">>([A-Za-z][\w@.-]{0,39})<<", re.ASCII)


@dataclass(frozen=True)
class Marks:
    """Pieces that stand for something else than text, as JoeyNMT has them.

    Attributes:
        tags: of languages. One at the start of a sentence stands there without a space, and none
            of them is part of what is written.
        separator: ends what a translation was begun with, which is not part of it either.
    """

    tags: tuple[str, ...] = ()
    separator: str = ""

    def settings(self) -> dict[str, Any]:
        """What there is, for JSON."""
        given = {"tags": list(self.tags), "separator": self.separator}
        return {name: value for name, value in given.items() if value}

    @classmethod
    def taken(cls, settings: dict[str, Any]) -> Marks:
        """Take out of `settings` what `settings()` wrote. Raises `TokenizerError`."""
        tags, separator = settings.pop("tags", []), settings.pop("separator", "")
        if not isinstance(tags, list) or not all(isinstance(each, str) for each in tags):
            raise TokenizerError("tags are texts")
        if not isinstance(separator, str):
            raise TokenizerError("the separator is a text")
        return cls(tuple(tags), separator)


class Numbered(Tokenizer):
    """What tokenizers share whose ids come from a table. One side's, with the other's at hand.

    Attributes:
        marks: pieces that are not text.
        preparation: what is done to text before it is cut.
        settings: all that is needed to build it again beside its model and its table, for JSON.
    """

    preparation: Preparation
    marks: Marks
    _special: tuple[int, int, int, int]
    _ids: dict[str, int]
    _target: Numbered | None

    def _number(
        self,
        table: Sequence[str],
        config: ModelConfig,
        target: Numbered | None,
        preparation: Preparation,
        marks: Marks,
    ) -> None:
        """Take the ids from a table. Raises `TokenizerError` where it cannot be one."""
        if len(set(table)) != len(table):
            raise TokenizerError("the vocabulary holds a piece twice")
        try:
            "".join(table).encode()
        except UnicodeEncodeError:
            raise TokenizerError("the vocabulary holds a piece that is not text") from None
        self._special = (config.pad_id, config.bos_id, config.eos_id, config.unk_id)
        self._target, self.preparation, self.marks = target, preparation, marks
        self.pieces = tuple(table)
        # Text is never a special token, whatever is typed.
        self._ids = {
            piece: index for index, piece in enumerate(table) if index not in self._special
        }

    @property
    def settings(self) -> dict[str, Any]:
        """See the class."""
        prepared = self.preparation.settings()
        return ({"preparation": prepared} if prepared else {}) | self.marks.settings()

    @property
    def target(self) -> Tokenizer:
        """The other side's tokenizer."""
        return self if self._target is None else self._target

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        return self._special[0]

    @property
    def bos_id(self) -> int:
        """Id of what starts the decoder."""
        return self._special[1]

    @property
    def eos_id(self) -> int:
        """Id of what ends source and target."""
        return self._special[2]

    @property
    def unk_id(self) -> int:
        """Id of what stands for everything else."""
        return self._special[3]

    def files(self) -> dict[str, bytes]:
        """What to write to a checkpoint's folder so that it holds this tokenizer, by file name."""
        return files_of(self, self._target)

    def prepared(self, text: str) -> str:
        """Cleaned and prepared text, as it is cut."""
        return self.preparation(clean(text))

    def encode(self, text: str) -> list[int]:
        """Ids of a sentence's pieces, without special tokens."""
        return list(self.tokenize(text).ids)

    def model_bytes(self) -> bytes | None:
        """The SentencePiece model that cuts, None where rules do."""
        return None

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many sentences at once."""
        return [self.encode(text) for text in texts]

    def piece_to_id(self, piece: str) -> int:
        """Return the id of a piece, `unk_id` where it is not in the table."""
        return self._ids.get(piece, self.unk_id)

    def _kept(self, ids: Iterable[int]) -> list[str]:
        """The pieces of ids that are text, or unknown."""
        left_out = set(self._special) - {self.unk_id}
        kept = [self.pieces[index] for index in ids if index not in left_out]
        if self.marks.separator in kept:
            kept = kept[kept.index(self.marks.separator) + 1 :]
        return [piece for piece in kept if piece not in self.marks.tags]


class TableTokenizer(Numbered):
    """One side's SentencePiece model, and the table that numbers its pieces.

    A tag such as `>>fra<<` at the start of a sentence, which tells a model of many languages what
    to translate to, is one token.
    """

    def __init__(
        self,
        model: bytes,
        table: Sequence[str],
        config: ModelConfig,
        target: Numbered | None = None,
        preparation: Preparation = Preparation(),  # noqa: B008 - it cannot change
        marks: Marks = Marks(),
    ) -> None:
        """Join the bytes of a SentencePiece model and a table of pieces, in the order of their ids.

        Args:
            config: says which ids are special.
            preparation: what is done to text before it is cut.
            target: the other side's tokenizer, where it is not this one.
            marks: pieces that are not text.

        Raises: `TokenizerError` where the two do not belong together.
        """
        super().__init__(model)
        own_pieces = self.pieces
        self._number(table, config, target, preparation, marks)
        known = set(table)
        own = [
            piece
            for index, piece in enumerate(own_pieces)
            if not (self._processor.is_control(index) or self._processor.is_unknown(index))
        ]
        n_shared = sum(piece in known for piece in own)
        if 2 * n_shared < len(own):
            raise TokenizerError(
                f"only {n_shared:,} of its {len(own):,} pieces are in the vocabulary, so the two "
                "are not of one model"
            )
        self._spelled = frozenset(
            p for p, byte in zip(own_pieces, self._is_byte, strict=True) if byte
        )
        self.byte_ids = frozenset(self._ids[p] for p in self._spelled if p in self._ids)

    def model_bytes(self) -> bytes:
        """The SentencePiece model."""
        return self.to_bytes()

    def tokenize(self, text: str) -> Tokenized:
        """Cut a sentence into pieces, after `prepared`."""
        tag, rest = self._prepared_rest(text)
        tokenized = self._tokenized(self._processor.encode(rest, return_type="proto"))
        return self._tagged(tag, tokenized)

    def n_best(self, text: str, count: int) -> list[tuple[Tokenized, float]]:
        """See `Tokenizer.n_best`; a tag is not cut."""
        tag, rest = self._prepared_rest(text)
        return [(self._tagged(tag, cut), score) for cut, score in super().n_best(rest, count)]

    def normalize(self, text: str) -> str:
        """The text that is cut: without a tag, cleaned, normalised."""
        return super().normalize(self._prepared_rest(text)[1])

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """See `Tokenizer.scores`; 0 also for pieces that SentencePiece does not know."""
        own = self._processor
        known = {own.id_to_piece(index): own.get_score(index) for index in range(len(own))}
        return tuple(known.get(piece, 0.0) for piece in self.pieces)

    def sample(self, text: str, *, alpha: float) -> list[int]:
        """Ids of a random segmentation, see `Tokenizer.sample`."""
        tag, rest = self._prepared_rest(text)
        pieces = self._processor.encode(
            rest, out_type=str, enable_sampling=True, alpha=alpha, nbest_size=-1
        )
        return [self.piece_to_id(piece) for piece in (*([tag] if tag else []), *pieces)]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of a token sequence; special tokens other than the unknown one are left out."""
        text: str = self._processor.decode_pieces(self._kept(ids))
        return self.preparation.undo(text.replace("▁", " ").strip())

    def _prepared_rest(self, text: str) -> tuple[str, str]:
        """The tag in front, "" for none, and the rest of the text as it is cut."""
        tag, rest = split_tag(clean(text))
        return tag, self.preparation(rest.strip())

    def _tokenized(self, encoded: Any) -> Tokenized:
        found = list(encoded.pieces)
        if len(found) > 1 and found[0].piece == "▁" and found[1].piece in self.marks.tags:
            del found[0]
        pieces = tuple(piece.piece for piece in found)
        ids = tuple(map(self.piece_to_id, pieces))
        return Tokenized(
            pieces=pieces,
            ids=ids,
            surfaces=tuple(piece.surface for piece in found),
            unknown=tuple(
                index
                for index, (piece, token) in enumerate(zip(pieces, ids, strict=True))
                if token == self.unk_id or piece in self._spelled
            ),
        )

    def _tagged(self, tag: str, cut: Tokenized) -> Tokenized:
        """Put a tag in front of a sentence that was cut without it."""
        if not tag:
            return cut
        token = self.piece_to_id(tag)
        return Tokenized(
            pieces=(tag, *cut.pieces),
            ids=(token, *cut.ids),
            surfaces=(tag, *cut.surfaces),
            unknown=(
                *((0,) if token == self.unk_id else ()),
                *(index + 1 for index in cut.unknown),
            ),
        )


def split_tag(text: str) -> tuple[str, str]:
    """The tag `>>...<<` that a text starts with ("" for none), and the rest."""
    end = text.find("<<")
    if not text.startswith(">>") or end < 0:
        return "", text
    return text[: end + 2], text[end + 2 :]


def tags_among(pieces: Iterable[object]) -> tuple[str, ...]:
    """The languages that a vocabulary has tags for: what stands between `>>` and `<<`."""
    found = (_TAG.fullmatch(piece) for piece in pieces if isinstance(piece, str))
    return tuple(match[1] for match in found if match)


def table_of(ids: Mapping[str, int]) -> list[str]:
    """The pieces in the order of their ids. Raises `TokenizerError` unless each id has one."""
    table = sorted(ids, key=lambda piece: ids[piece])
    for index, piece in enumerate(table):
        if ids[piece] != index:
            raise TokenizerError(
                f"its {len(ids):,} pieces do not have the ids 0 to {len(ids) - 1:,}; "
                f"there is {'no' if ids[piece] > index else 'more than one'} piece {index:,}"
            )
    return table
