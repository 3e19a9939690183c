"""Tokenizers with separate id tables: SentencePiece segments, and the table numbers the pieces.

Models from elsewhere often have one SentencePiece model per language, and a joint or separate
vocabulary whose order is unrelated to SentencePiece's ids. A piece missing from the table is
unknown, whatever its SentencePiece id. `transformer.text.rules` has other segmentation rules.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

from transformer.config import ModelConfig
from transformer.text import layout
from transformer.text.limits import check_pieces
from transformer.text.marks import START, visible
from transformer.text.tokenizer import Preparation, Tokenized, Tokenizer, TokenizerError

MAX_ADDED = 2_000
#: A language tag of OPUS models; longer matches are text.
_TAG = re.compile(r">>([A-Za-z][\w@.-]{0,39})<<", re.ASCII)


@dataclass(frozen=True)
class Marks:
    """Pieces that segmentation does not find, or that do not stand for text."""

    # Language tags. No space follows a tag at the start of a sentence, and decoded text has none.
    tags: tuple[str, ...] = ()
    separator: str = ""  # ends a translation's prefix, which decoded text omits
    added: tuple[str, ...] = ()  # found in the text before the rest is segmented

    def settings(self) -> dict[str, Any]:
        """Return the marks that are set, for JSON."""
        values = {"tags": [*self.tags], "separator": self.separator, "added": [*self.added]}
        return {name: value for name, value in values.items() if value}

    @classmethod
    def taken(cls, settings: dict[str, Any]) -> "Marks":
        """Pop the result of `settings()` from `settings`. Raises `TokenizerError`."""
        tags, separator = settings.pop("tags", []), settings.pop("separator", "")
        added = settings.pop("added", [])
        for pieces in (tags, added):
            if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
                raise TokenizerError("tags and added tokens should be lists of strings")
        if not isinstance(separator, str):
            raise TokenizerError("the separator should be a string")
        if len(added) > MAX_ADDED:  # each is looked for at every character
            raise TokenizerError(f"{len(added):,} added tokens; at most {MAX_ADDED:,}")
        return cls(tuple(tags), separator, tuple(filter(None, added)))


class Numbered(Tokenizer):
    """Base class of tokenizers with an id table, linked to the target's tokenizer.

    Attributes:
        marks: pieces that are not text.
        preparation: applied to text before segmentation.
        settings: everything to rebuild it besides its model and table, for JSON.
    """

    preparation: Preparation
    marks: Marks
    _special: tuple[int, int, int, int]
    _ids: dict[str, int]
    _target: "Numbered | None"

    def _number(
        self, table: Sequence[str], config: ModelConfig, target: "Numbered | None",
        preparation: Preparation, marks: Marks,
    ) -> None:  # fmt: skip
        """Set the ids from a table. Raises `TokenizerError` if it is invalid."""
        if len(set(table)) != len(table):
            raise TokenizerError("the vocabulary holds a piece twice")
        try:
            check_pieces(table)
            "".join(table).encode()
        except UnicodeEncodeError:
            raise TokenizerError("the vocabulary holds a piece that is not text") from None
        except ValueError as error:
            raise TokenizerError(f"the vocabulary holds {error}") from None
        self._special = (config.pad_id, config.bos_id, config.eos_id, config.unk_id)
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = self._special
        self._target, self.preparation, self.marks = target, preparation, marks
        self.pieces = tuple(table)
        # Typed text never becomes a special token.
        self._ids = {piece: i for i, piece in enumerate(table) if i not in self._special}

    @property
    def settings(self) -> dict[str, Any]:
        """See the class."""
        prepared = self.preparation.settings()
        return ({"preparation": prepared} if prepared else {}) | self.marks.settings()

    @property
    def target(self) -> Tokenizer:
        """The target side's tokenizer."""
        return self if self._target is None else self._target

    def files(self) -> dict[str, bytes]:
        """Return the tokenizer's files in a checkpoint, name to content."""
        files = {layout.TABLE_FILE: _as_json(self.pieces)}
        files |= self._side_files(layout.TOKENIZER_FILE, layout.RULES_FILE, needs_rules=False)
        other = self._target
        if other is None:
            return files
        if other.pieces != self.pieces:
            files[layout.TARGET_TABLE_FILE] = _as_json(other.pieces)
        # Without rules of its own, the target would follow the source's.
        own = other._side_files(
            layout.TARGET_FILE, layout.TARGET_RULES_FILE, needs_rules=layout.RULES_FILE in files
        )
        return files | own

    def _side_files(self, model: str, rules: str, *, needs_rules: bool) -> dict[str, bytes]:
        files, settings = {}, self.settings
        if self._model:
            files[model] = self._model
            settings = {"unit": layout.BY_MODEL, **settings} if settings or needs_rules else {}
        if settings:
            files[rules] = _as_json(settings)
        return files

    def read(self, text: str) -> str:
        """Return text as typed, without lone surrogates; the model's own steps clean it."""
        return text.encode(errors="ignore").decode()

    def prepared(self, text: str) -> str:
        """Return prepared text, ready for segmentation."""
        return self.preparation(self.read(text))

    def encode(self, text: str) -> list[int]:
        """Return the piece ids of a sentence, without special tokens."""
        return list(self.tokenize(text).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many sentences at once."""
        return [self.encode(text) for text in texts]

    def piece_to_id(self, piece: str) -> int:
        """Return the id of a piece, or `unk_id` if it is not in the table."""
        return self._ids.get(piece, self.unk_id)

    def _kept(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces for ids, without special tokens except unknown ones."""
        left_out = set(self._special) - {self.unk_id}
        kept = [self.pieces[index] for index in map(int, ids) if index not in left_out]
        if self.marks.separator in kept:
            kept = kept[kept.index(self.marks.separator) + 1 :]
        return [piece for piece in kept if piece not in self.marks.tags]


class TableTokenizer(Numbered):
    """One side's SentencePiece model, with a table of piece ids.

    A tag at the start of a sentence, such as `>>fra<<`, is one token that sets a multilingual
    model's target language.
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
        """Combine a SentencePiece model with a table of pieces in id order.

        Args:
            config: defines the special ids.
            target: the target side's tokenizer, if it has its own.
            preparation: applied to text before segmentation.
            marks: pieces that are not text.

        Raises: `TokenizerError` if the two do not belong together.
        """
        super().__init__(model)
        own_pieces = self.pieces
        self._number(table, config, target, preparation, marks)
        vocabulary, processor = set(table), self._processor
        own = [
            piece for i, piece in enumerate(own_pieces)
            if not (processor.is_control(i) or processor.is_unknown(i))
        ]  # fmt: skip
        n_shared = sum(piece in vocabulary for piece in own)
        if 2 * n_shared < len(own):
            raise TokenizerError(
                f"only {n_shared:,} of its {len(own):,} pieces are in the vocabulary, so the two "
                "belong to different models"
            )
        pairs = zip(own_pieces, self._is_byte, strict=True)
        self._bytes = frozenset(piece for piece, is_byte in pairs if is_byte)
        self.byte_ids = frozenset(self._ids[piece] for piece in self._bytes if piece in self._ids)

    def tokenize(self, text: str) -> Tokenized:
        """Segment a sentence after `prepared`."""
        return self._joined([self._segmented(part) for part in self._parts(text)])

    def n_best(self, text: str, count: int) -> list[tuple[Tokenized, float]]:
        """See `Tokenizer.n_best`; a tag stays whole. Returns [] if the text has added tokens."""
        if len(self._parts(text)) > 1:
            return []
        tag, rest = self._prepared_rest(text)
        cuts = super().n_best(rest, count)
        return [(self._joined([self._one(tag), cut]), score) for cut, score in cuts]

    def normalize(self, text: str) -> str:
        """Return the normalised text before segmentation, without a tag."""
        return "".join(
            part if part in self.marks.added
            else super(TableTokenizer, self).normalize(self._prepared_rest(part)[1])
            for part in self._parts(text)
        )  # fmt: skip

    def shown(self, ids: Sequence[int], after: int | None = None) -> tuple[str, ...]:
        """See `Tokenizer.shown`; an added token is a word."""
        words = {*self.marks.added} - {*self.marks.tags}
        return tuple(
            START + piece if piece in words else piece for piece in super().shown(ids, after)
        )

    def _is_special(self, index: int) -> bool:
        return super()._is_special(index) or self.pieces[index] in self.marks.tags

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """See `Tokenizer.scores`; 0 also for pieces unknown to SentencePiece."""
        own = self._processor
        scores = {own.id_to_piece(index): own.get_score(index) for index in range(len(own))}
        return tuple(scores.get(piece, 0.0) for piece in self.pieces)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a token sequence, without special tokens except unknown ones."""
        text: str = self._processor.decode_pieces(self._kept(ids))
        return self.preparation.undo(text.replace("▁", " ").strip())

    def _parts(self, text: str) -> list[str]:
        """Split a text around its added tokens, which stay as parts."""
        read = self.read(text)
        return [part for part in self._added.split(read) if part] if self.marks.added else [read]

    @cached_property
    def _added(self) -> re.Pattern[str]:
        longest = sorted(self.marks.added, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest))})")

    def _segmented(self, part: str) -> Tokenized:
        if part in self.marks.added:
            return self._one(part)
        tag, rest = self._prepared_rest(part)
        encoded = self._processor.encode(rest, return_type="proto")
        return self._joined([self._one(tag), self._tokenized(encoded)])

    def _prepared_rest(self, text: str) -> tuple[str, str]:
        """Return the leading tag, or "", and the rest of the text, prepared."""
        tag, rest = split_tag(self.read(text))
        return tag, self.preparation(rest)

    def _tokenized(self, encoded: Any) -> Tokenized:
        parts = list(encoded.pieces)
        if len(parts) > 1 and parts[0].piece == "▁" and parts[1].piece in self.marks.tags:
            del parts[0]
        pieces = tuple(part.piece for part in parts)
        ids = tuple(map(self.piece_to_id, pieces))
        special = {at for at, index in enumerate(ids) if self._is_special(index)}
        tokens = enumerate(zip(pieces, ids, strict=True))
        return Tokenized(
            pieces=tuple(map(visible, self._with_starts(pieces, special))),
            ids=ids,
            surfaces=tuple(part.surface for part in parts),
            unknown=tuple(i for i, (p, t) in tokens if t == self.unk_id or p in self._bytes),
        )

    def _one(self, piece: str) -> Tokenized:
        """Segment a tag or an added token, or "" into nothing."""
        if not piece:
            return Tokenized((), (), (), ())
        token = self.piece_to_id(piece)
        return Tokenized(
            self.shown((token,)) if token != self.unk_id else (piece,), (token,), (piece,),
            (0,) if token == self.unk_id else (),
        )  # fmt: skip

    @staticmethod
    def _joined(cuts: Sequence[Tokenized]) -> Tokenized:
        before = accumulate((len(cut.ids) for cut in cuts), initial=0)
        return Tokenized(
            pieces=tuple(chain.from_iterable(cut.pieces for cut in cuts)),
            ids=tuple(chain.from_iterable(cut.ids for cut in cuts)),
            surfaces=tuple(chain.from_iterable(cut.surfaces for cut in cuts)),
            unknown=tuple(
                n + at for n, cut in zip(before, cuts, strict=False) for at in cut.unknown
            ),
        )


def _as_json(values: Any) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=0) + "\n").encode()


def split_tag(text: str) -> tuple[str, str]:
    """Split off a leading tag `>>...<<`: (tag or "", rest)."""
    end = text.find("<<")
    if not text.startswith(">>") or end < 0:
        return "", text
    return text[: end + 2], text[end + 2 :]


def tags_among(pieces: Iterable[object]) -> tuple[str, ...]:
    """Return the languages of a vocabulary's tags, without `>>` and `<<`."""
    matches = (_TAG.fullmatch(piece) for piece in pieces if isinstance(piece, str))
    return tuple(match[1] for match in matches if match)


def table_of(ids: Mapping[str, int]) -> list[str]:
    """Sort pieces by id. Raises `TokenizerError` unless each id has exactly one."""
    table = sorted(ids, key=lambda piece: ids[piece])
    for index, piece in enumerate(table):
        if ids[piece] != index:
            problem = "no" if ids[piece] > index else "more than one"
            raise TokenizerError(
                f"its {len(ids):,} pieces do not have the ids 0 to {len(ids) - 1:,}; "
                f"there is {problem} piece {index:,}"
            )
    return table
