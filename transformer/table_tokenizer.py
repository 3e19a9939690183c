"""Tokenizers that number their pieces by a table: SentencePiece cuts, the vocabulary counts.

Models trained elsewhere often have one SentencePiece model for each language and a vocabulary,
joint or one a side, whose order has nothing to do with SentencePiece's own ids. A piece that the
table lacks is unknown, whatever SentencePiece calls it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from transformer.config import ModelConfig
from transformer.tokenizer import TOKENIZER_FILE, Tokenized, Tokenizer, TokenizerError, clean

TARGET_FILE = "target.model"
TABLE_FILE, TARGET_TABLE_FILE = "vocabulary.json", "target_vocabulary.json"
#: Every file that may belong to a tokenizer.
TOKENIZER_FILES = (TOKENIZER_FILE, TABLE_FILE, TARGET_FILE, TARGET_TABLE_FILE)


class TableTokenizer(Tokenizer):
    """One side's SentencePiece model, and the table that numbers its pieces.

    A tag such as `>>fra<<` at the start of a sentence, which tells a model of many languages what
    to translate to, is one token.
    """

    def __init__(
        self,
        model: bytes,
        table: Sequence[str],
        config: ModelConfig,
        target: TableTokenizer | None = None,
    ) -> None:
        """Join the bytes of a SentencePiece model and a table of pieces, in the order of their ids.

        Args:
            config: says which ids are special.
            target: the other side's tokenizer, where it is not this one.

        Raises: `TokenizerError` where the two do not belong together.
        """
        super().__init__(model)
        known = set(table)
        if len(known) != len(table):
            raise TokenizerError("the vocabulary holds a piece twice")
        try:
            "".join(table).encode()
        except UnicodeEncodeError:
            raise TokenizerError("the vocabulary holds a piece that is not text") from None
        own = [
            piece
            for index, piece in enumerate(self.pieces)
            if not (self._processor.is_control(index) or self._processor.is_unknown(index))
        ]
        n_shared = sum(piece in known for piece in own)
        if 2 * n_shared < len(own):
            raise TokenizerError(
                f"only {n_shared:,} of its {len(own):,} pieces are in the vocabulary, so the two "
                "are not of one model"
            )
        self._special = (config.pad_id, config.bos_id, config.eos_id, config.unk_id)
        self._target = target
        self._spelled = frozenset(
            p for p, byte in zip(self.pieces, self._is_byte, strict=True) if byte
        )
        self.pieces = tuple(table)
        # Text is never a special token, whatever is typed.
        self._ids = {
            piece: index for index, piece in enumerate(table) if index not in self._special
        }
        self.byte_ids = frozenset(self._ids[p] for p in self._spelled if p in self._ids)

    @property
    def target(self) -> Tokenizer:
        """The other side's tokenizer."""
        return self if self._target is None else self._target

    def files(self) -> dict[str, bytes]:
        """What to write to a checkpoint's folder so that it holds this tokenizer, by file name."""
        files = {TOKENIZER_FILE: self._model, TABLE_FILE: _as_json(self.pieces)}
        if self._target is not None:
            files[TARGET_FILE] = self._target.to_bytes()
            if self._target.pieces != self.pieces:
                files[TARGET_TABLE_FILE] = _as_json(self._target.pieces)
        return files

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

    def tokenize(self, text: str) -> Tokenized:
        """Cut a sentence into pieces, after `clean`."""
        tag, rest = split_tag(clean(text))
        tokenized = self._tokenized(self._processor.encode(rest, return_type="proto"))
        return self._tagged(tag, tokenized)

    def n_best(self, text: str, count: int) -> list[tuple[Tokenized, float]]:
        """See `Tokenizer.n_best`; a tag is not cut."""
        tag, rest = split_tag(clean(text))
        return [(self._tagged(tag, cut), score) for cut, score in super().n_best(rest, count)]

    def normalize(self, text: str) -> str:
        """The text that is cut: without a tag, cleaned, normalised."""
        return super().normalize(split_tag(clean(text))[1])

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """See `Tokenizer.scores`; 0 also for pieces that SentencePiece does not know."""
        own = self._processor
        known = {own.id_to_piece(index): own.get_score(index) for index in range(len(own))}
        return tuple(known.get(piece, 0.0) for piece in self.pieces)

    def encode(self, text: str) -> list[int]:
        """Ids of a sentence's pieces, without special tokens."""
        return list(self.tokenize(text).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many sentences at once."""
        return [self.encode(text) for text in texts]

    def sample(self, text: str, *, alpha: float) -> list[int]:
        """Ids of a random segmentation, see `Tokenizer.sample`."""
        tag, rest = split_tag(clean(text))
        pieces = self._processor.encode(
            rest, out_type=str, enable_sampling=True, alpha=alpha, nbest_size=-1
        )
        return [self.piece_to_id(piece) for piece in (*([tag] if tag else []), *pieces)]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of a token sequence; special tokens other than the unknown one are left out."""
        left_out = set(self._special) - {self.unk_id}
        kept = [self.pieces[index] for index in ids if index not in left_out]
        text: str = self._processor.decode_pieces(kept)
        return text.replace("▁", " ").strip()

    def piece_to_id(self, piece: str) -> int:
        """Return the id of a piece, `unk_id` where it is not in the table."""
        return self._ids.get(piece, self.unk_id)

    def _tokenized(self, encoded: Any) -> Tokenized:
        pieces = tuple(piece.piece for piece in encoded.pieces)
        ids = tuple(map(self.piece_to_id, pieces))
        return Tokenized(
            pieces=pieces,
            ids=ids,
            surfaces=tuple(piece.surface for piece in encoded.pieces),
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


def read_tokenizer(
    files: Iterable[str], read: Callable[[str], bytes], config: ModelConfig
) -> Tokenizer:
    """The tokenizer of a checkpoint.

    Args:
        files: names of the files that are there.
        read: the bytes of one of `TOKENIZER_FILES`.

    Raises: `TokenizerError`, its message starting with the name of the file at fault.
    """
    files = set(files)
    if TABLE_FILE not in files:
        with blaming(TOKENIZER_FILE):
            return Tokenizer(read(TOKENIZER_FILE))
    with blaming(TABLE_FILE):
        source = _table(read(TABLE_FILE))
    target = None
    if files & {TARGET_FILE, TARGET_TABLE_FILE}:
        names = [
            own if own in files else shared
            for own, shared in ((TARGET_FILE, TOKENIZER_FILE), (TARGET_TABLE_FILE, TABLE_FILE))
        ]
        with blaming(names[1]):
            table = _table(read(names[1]))
        with blaming(names[0]):
            target = TableTokenizer(read(names[0]), table, config)
    with blaming(TOKENIZER_FILE):
        return TableTokenizer(read(TOKENIZER_FILE), source, config, target)


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Put the name of a file in front of what is wrong with it."""
    try:
        yield
    except TokenizerError as error:
        raise TokenizerError(f"{name}: {error}") from None


def _table(data: bytes) -> list[str]:
    try:
        pieces = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"not valid JSON: {error}") from None
    if not isinstance(pieces, list) or not all(isinstance(each, str) for each in pieces):
        raise TokenizerError("expected a JSON list of pieces")
    return pieces


def _as_json(pieces: Sequence[str]) -> bytes:
    return (json.dumps(list(pieces), ensure_ascii=False, indent=0) + "\n").encode()


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
