"""SentencePiece tokenizer (the paper uses byte-pair encoding, section 5.1), and text preparation.

Many models from elsewhere were trained on lower-cased text, or on text tokenised by the Moses
scripts: punctuation separated by spaces, quotation marks and apostrophes escaped as in XML.
"""

import dataclasses
import importlib.util
import io
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import sentencepiece as spm

from transformer.text.layout import TOKENIZER_FILE
from transformer.text.limits import checked_sentencepiece
from transformer.text.marks import MARKS, START, marked
from transformer.types import literals

__all__ = [
    "BOS_ID", "EOS_ID", "PAD_ID", "UNK_ID", "Kind", "Tokenized", "Tokenizer", "TokenizerError",
    "clean", "train_tokenizer",
]  # fmt: skip

#: Special pieces and their ids in every tokenizer trained here.
SPECIAL_PIECES = ("<pad>", "<s>", "</s>", "<unk>")
PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(4)

#: Segmentation: by piece probabilities, by merges of SentencePiece or a codes file, at spaces only,
#: or into characters.
Kind = Literal["unigram", "bpe", "merges", "word", "char"]

#: Bytes per line. By default SentencePiece silently drops lines above 4,192 bytes.
LONGEST_LINE = 2**20

#: Maximum nodes in a lattice of segmentations.
MAX_NODES = 1_000_000


class TokenizerError(ValueError):
    """A tokenizer file that cannot be used; the message names it and the reason."""


@dataclass(frozen=True)
class Tokenized:
    """A segmented sentence."""

    pieces: tuple[str, ...]  # as in the vocabulary; `▁` (U+2581) marks the start of a word
    ids: tuple[int, ...]  # the pieces' ids, without special tokens
    surfaces: tuple[str, ...]  # the text of each piece
    # Positions of text outside the vocabulary, which becomes `<unk>` or rarely seen byte pieces.
    unknown: tuple[int, ...]


def clean(text: str) -> str:
    """Clean text for the tokenizer: one line, no control characters, NFC.

    White space, including line breaks and tabs, becomes single spaces. Control characters, lone
    surrogates and format characters without a glyph are removed, except the joiners that scripts
    and emoji need.
    """
    kept = []
    for character in unicodedata.normalize("NFC", text):
        category = unicodedata.category(character)
        if character.isspace() or category in ("Zl", "Zp"):
            kept.append(" ")
        elif category not in ("Cc", "Cs") and (category != "Cf" or character in "\u200c\u200d"):
            kept.append(character)
    return " ".join("".join(kept).split())


class Tokenizer:
    """A SentencePiece model with this project's special ids.

    Attributes:
        pieces: the vocabulary, by id.
        pad_id, bos_id, eos_id, unk_id: ids of padding, the decoder's first token, the last token
            of source and target, and the unknown token.
        byte_ids: ids of the 256 byte pieces; empty without byte fallback.
        kind: kind of segmentation, inferred from the vocabulary.
    """

    pad_id, bos_id, eos_id, unk_id = PAD_ID, BOS_ID, EOS_ID, UNK_ID
    _ends_words = False  # True if pieces mark the end of a word (`cement▁`)

    def __init__(self, model: bytes) -> None:
        """Read the content of a `.model` file. Raises `TokenizerError` if it is not one."""
        self._model = model
        if not model:
            raise TokenizerError("not a SentencePiece model (it is empty)")
        try:
            self._processor = spm.SentencePieceProcessor(model_proto=checked_sentencepiece(model))
            count = self._processor.get_piece_size()
            self.pieces: tuple[str, ...] = tuple(map(self._processor.id_to_piece, range(count)))
        except UnicodeDecodeError:  # in a piece, or in an error message about one
            raise TokenizerError("not a SentencePiece model (a piece is not UTF-8)") from None
        except (RuntimeError, ValueError) as error:
            raise TokenizerError(f"not a SentencePiece model ({error})") from None
        self._is_byte = tuple(map(self._processor.is_byte, range(count)))
        self.byte_ids = frozenset(index for index, is_byte in enumerate(self._is_byte) if is_byte)
        starts = sum(piece.startswith(START) for piece in self.pieces)
        self._ends_words = sum(map(MARKS["word_end"], self.pieces)) > starts
        self.kind: Kind = self._find_kind()

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `.model` file. Raises `TokenizerError` naming the file."""
        try:
            return cls(Path(path).read_bytes())
        except (OSError, TokenizerError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TokenizerError(f"{path}: {reason}") from None

    @property
    def target(self) -> "Tokenizer":
        """The target side's tokenizer; this one if both sides share it."""
        return self

    def files(self) -> dict[str, bytes]:
        """Return the tokenizer's files in a checkpoint, name to content."""
        return {TOKENIZER_FILE: self._model}

    def to_bytes(self) -> bytes:
        """Return the content of the `.model` file."""
        return self._model

    @property
    def vocab_size(self) -> int:
        """Number of pieces, including special ones."""
        return len(self.pieces)

    def tokenize(self, text: str) -> Tokenized:
        """Segment a sentence after `read`."""
        return self._tokenized(self._processor.encode(self.read(text), return_type="proto"))

    def read(self, text: str) -> str:
        """Return typed text, cleaned for segmentation."""
        return clean(text)

    def n_best(self, text: str, count: int) -> list[tuple[Tokenized, float]]:
        """Return the most probable segmentations under a unigram vocabulary, best first.

        Returns: at most `count` segmentations with their log-probabilities in nats, summed over
            pieces; [] for other vocabularies.
        """
        read = self.read(text)
        # Every piece that fits at a character becomes a node.
        most = len(read) * max(map(len, self.pieces))
        if self.kind != "unigram" or not read or most > MAX_NODES:
            return []
        best = self._processor.nbest_encode(read, nbest_size=count, return_type="proto")
        return [(self._tokenized(cut), float(cut.score)) for cut in best.nbests if cut.pieces]

    def normalize(self, text: str) -> str:
        """Return the text before segmentation: cleaned, normalised, with `▁` for spaces."""
        read = self.read(text)
        normalized: str = self._processor.normalize(read) if read else ""
        return normalized

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """Piece scores: log-probability in nats (unigram) or negative merge rank (BPE); 0 for
        special and byte pieces.
        """
        return tuple(map(self._processor.get_score, range(len(self._is_byte))))

    def _find_kind(self) -> Kind:
        try:
            self._processor.nbest_encode("a", nbest_size=1)
        except RuntimeError:
            special = {*range(len(SPECIAL_PIECES)), *self.byte_ids}
            long = any(len(p) > 1 for i, p in enumerate(self.pieces) if i not in special)
            return "bpe" if long else "char"
        return "unigram"

    def _tokenized(self, encoded: Any) -> Tokenized:
        pieces = encoded.pieces
        return Tokenized(
            pieces=self._with_starts([piece.piece for piece in pieces]),
            ids=tuple(piece.id for piece in pieces),
            surfaces=tuple(piece.surface for piece in pieces),
            unknown=tuple(
                at for at, p in enumerate(pieces) if p.id == UNK_ID or self._is_byte[p.id]
            ),
        )

    def encode(self, text: str) -> list[int]:
        """Return the piece ids of a sentence, without special tokens."""
        ids: list[int] = self._processor.encode(self.read(text))
        return ids

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many sentences at once."""
        ids: list[list[int]] = self._processor.encode([self.read(text) for text in texts])
        return ids

    def segment(self, normalised: str) -> list[int]:
        """Return the ids of normalised text; unlike `encode`, it adds no word-start mark."""
        ids: list[int] = self._bare.encode(normalised)
        return ids

    @cached_property
    def _bare(self) -> spm.SentencePieceProcessor:
        proto = _parsed(checked_sentencepiece(self._model))
        proto.normalizer_spec.Clear()
        proto.normalizer_spec.add_dummy_prefix = False
        proto.normalizer_spec.remove_extra_whitespaces = False
        return spm.SentencePieceProcessor(model_proto=proto.SerializeToString())

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a token sequence, without special tokens."""
        kept = [index for index in map(int, ids) if index not in (PAD_ID, BOS_ID, EOS_ID)]
        text: str = self._processor.decode(kept)
        return text

    def id_to_piece(self, index: int) -> str:
        """Return the piece with this id."""
        return self.pieces[index]

    def shown(self, ids: Sequence[int], after: int | None = None) -> tuple[str, ...]:
        """Return the pieces for ids that follow the id `after`, with `▁` at word starts."""
        special = {at for at, index in enumerate(ids) if self._is_special(index)}
        before = None if after is None or self._is_special(after) else self.pieces[after]
        return self._with_starts([self.pieces[index] for index in ids], special, before)

    def _with_starts(
        self, pieces: Sequence[str], special: Collection[int] = (), after: str | None = None
    ) -> tuple[str, ...]:
        """Return pieces with `▁` at word starts. See `transformer.text.marks.marked`."""
        if not self._ends_words:
            return tuple(pieces)
        return marked(pieces, "word_end", special=special, after=after)

    def _is_special(self, index: int) -> bool:
        return index in (self.pad_id, self.bos_id, self.eos_id)

    def piece_to_id(self, piece: str) -> int:
        """Return the id of a piece, or `unk_id` if it is not in the vocabulary."""
        index: int = self._processor.piece_to_id(piece)
        return index


@literals
def train_tokenizer(
    texts: Iterable[str], vocab_size: int, *,
    model_type: Literal["unigram", "bpe", "char"] = "unigram", character_coverage: float = 1.0,
    byte_fallback: bool = False, casefold: bool = False, split_digits: bool = False,
    required_chars: str = "", fewer: bool = False,
) -> Tokenizer:  # fmt: skip
    """Train a joint tokenizer on sentences of both languages.

    Args:
        vocab_size: number of pieces, including the four special ones.
        model_type: "unigram" (Kudo 2018), "bpe" (Sennrich et al. 2016, the paper's choice) or
            "char", with one piece per character, up to `vocab_size`.
        character_coverage: share of characters that get their own piece.
        byte_fallback: spell other characters in bytes instead of `<unk>`; takes 256 pieces.
        casefold: convert to lower case.
        split_digits: spell numbers digit by digit.
        required_chars: rare characters that get their own piece, too.
        fewer: allow fewer pieces if the text is too small for `vocab_size`.

    Raises: `TokenizerError` if the text is too small for `vocab_size` or has more characters, or if
        coverage is below 0.98.
    """
    if not 0.98 <= character_coverage <= 1:  # SentencePiece's own bounds
        raise TokenizerError(
            f"character_coverage={character_coverage} is out of range; allowed is from 0.98 to 1"
        )
    written = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter([clean(text) for text in texts]), model_writer=written,
            vocab_size=vocab_size, model_type=model_type, character_coverage=character_coverage,
            byte_fallback=byte_fallback, split_digits=split_digits, required_chars=required_chars,
            normalization_rule_name="nmt_nfkc_cf" if casefold else "nmt_nfkc",
            hard_vocab_limit=not (fewer or model_type == "char"),
            pad_id=PAD_ID, bos_id=BOS_ID, eos_id=EOS_ID, unk_id=UNK_ID,
            pad_piece=SPECIAL_PIECES[PAD_ID], shuffle_input_sentence=False,
            max_sentence_length=LONGEST_LINE, num_threads=1, minloglevel=2,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        # The reason follows a position in SentencePiece's source.
        reason = str(error).rpartition("] ")[2] or str(error)
        raise TokenizerError(f"cannot train a tokenizer of {vocab_size} pieces: {reason}") from None
    return Tokenizer(written.getvalue())


def with_symbols(tokenizer: Tokenizer, symbols: Iterable[str]) -> Tokenizer:
    """Return a tokenizer with an added piece for every new symbol.

    A symbol is one token wherever it follows a space, so ordinary text should not contain it.
    """
    proto, existing = _parsed(tokenizer.to_bytes()), set(tokenizer.pieces)
    for symbol in symbols:
        if (written := f"▁{symbol}") not in existing:
            proto.pieces.add(piece=written, score=0.0, type=proto.SentencePiece.USER_DEFINED)
    return Tokenizer(proto.SerializeToString())


def _parsed(model: bytes) -> Any:
    # Imported late: it depends on the protobuf version, and nothing else needs it.
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    return ModelProto.FromString(model)


#: A Moses language code; nothing else may become part of a file name.
LANGUAGE = re.compile(r"[a-z]{2,3}", re.ASCII)

#: Straight quotes for curly ones, which NFKC does not change.
_QUOTES = str.maketrans({"\u2019": "'", "\u201c": '"', "\u201d": '"'})


@dataclass(frozen=True)
class Preparation:
    """Preparation steps, applied in this order."""

    # NFKC, straight quotes, no space before `? ! , . :`; `undo` also removes these spaces.
    normalise: bool = False
    normalise_punctuation: bool = False  # also by the Moses rules
    moses: str | None = None  # language for the Moses rules on words and punctuation, or None
    dash_splits: bool = False  # also split words at hyphens, written `@-@`
    escape: bool = True  # write `& | < > ' " [ ]` as XML and Moses do
    lowercase: bool = False

    def __post_init__(self) -> None:
        for name in ("normalise", "normalise_punctuation", "dash_splits", "escape", "lowercase"):
            if not isinstance(getattr(self, name), bool):
                raise TokenizerError(f"{name}={getattr(self, name)!r} is not true or false")
        if self.moses is None:
            return
        if not isinstance(self.moses, str) or not LANGUAGE.fullmatch(self.moses):
            raise TokenizerError(f"moses={self.moses!r} is not a language such as 'en'")
        if importlib.util.find_spec("sacremoses") is None:
            raise TokenizerError("needs sacremoses: pip install .[evaluate]")

    def __call__(self, text: str) -> str:
        """Prepare a text; by default it stays unchanged."""
        if self.normalise:
            text = _closed_up(unicodedata.normalize("NFKC", text).translate(_QUOTES))
        if self.moses is not None and text:
            if self.normalise_punctuation:
                text = _moses("PunctNormalizer", self.moses).normalize(text)
            text = _moses("Tokenizer", self.moses).tokenize(
                text, aggressive_dash_splits=self.dash_splits, escape=self.escape, return_str=True
            )
        return text.lower() if self.lowercase else text

    def undo(self, text: str) -> str:
        """Reverse the preparation in decoded text."""
        if self.moses is not None and text:
            text = _moses("Detokenizer", self.moses).detokenize(text.split())
        return _closed_up(text) if self.normalise else text

    def settings(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults, for JSON."""
        values, defaults = dataclasses.asdict(self), dataclasses.asdict(Preparation())
        return {name: value for name, value in values.items() if value != defaults[name]}

    @classmethod
    def of(cls, settings: object) -> Self:
        """Parse the result of `settings`. Raises `TokenizerError` for anything else."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(settings, Mapping) or not names.issuperset(settings):
            raise TokenizerError(f"unknown preparation setting; known: {', '.join(sorted(names))}")
        return cls(**settings)


def _closed_up(text: str) -> str:
    """Collapse spaces, and remove them before closing punctuation."""
    text = re.sub("[ \u3000]+", " ", text.replace("\u200b", ""))
    return re.sub(r" ([?!,.:])", r"\1", text).strip()


# Cached: construction reads abbreviation lists and compiles expressions. Tools have no state.
@lru_cache(maxsize=24)
def _moses(tool: str, language: str) -> Any:
    return getattr(importlib.import_module("sacremoses"), f"Moses{tool}")(lang=language)
