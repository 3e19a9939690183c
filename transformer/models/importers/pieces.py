"""Tokenizers from SentencePiece models or merge files beside a checkpoint."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from transformer.checkpoint.shards import Stored
from transformer.config import ModelConfig
from transformer.files.safe import MAX_TABLE, is_folder, is_there, read_small
from transformer.models.importers.settings import LISTS
from transformer.text.rules import RuleTokenizer, Unit, blaming, read_codes
from transformer.text.table import Marks, Numbered, TableTokenizer
from transformer.text.tokenizer import Preparation, TokenizerError
from transformer.types import CheckpointError

#: Common names of SentencePiece models and merge files; {} is the language.
MODELS, CODES = (LISTS["pieces"][name] for name in ("models", "codes"))


@dataclass(frozen=True)
class Segmenter:
    """Rules that cut one side's text into pieces."""

    table: tuple[Path, tuple[str, ...]]  # vocabulary file, and its pieces in order of their ids
    model: Path | None = None  # SentencePiece model
    codes: Path | None = None  # merge file; without model and codes, text is already segmented
    preparation: Preparation = field(default_factory=Preparation)  # before segmentation
    joint: str = "@@"  # suffix of pieces inside a word
    within: bool = False  # use only pieces in the table
    marks: Marks = field(default_factory=Marks)  # pieces that are not text
    unit: str = "word"  # without model and codes: "char" splits everywhere, "word" at spaces


def tokenizer_of(source: Segmenter, target: Segmenter, config: ModelConfig) -> Numbered:
    """Build the source and target tokenizers. Raises `CheckpointError` naming the bad file."""
    return _build(source, config, None if source == target else _build(target, config))


def _build(side: Segmenter, config: ModelConfig, target: Numbered | None = None) -> Numbered:
    at, table = side.table

    def by_rules(unit: Unit, **rules: Any) -> RuleTokenizer:
        prepared, marks = side.preparation, side.marks
        return RuleTokenizer(unit, table, config, target, prepared, marks=marks, **rules)

    try:
        if side.model is not None:
            data = read_small(side.model, MAX_TABLE)
            with blaming(str(side.model)):
                if side.within:
                    data = restrict(data, frozenset(table))
                return TableTokenizer(data, table, config, target, side.preparation, side.marks)
        if side.codes is not None:
            data = read_small(side.codes, MAX_TABLE)
            with blaming(str(side.codes)):
                merges, apart = read_codes(data)
                return by_rules(
                    "merges", merges=merges, end_apart=apart, joint=side.joint, within=side.within
                )
        with blaming(str(at)):
            if side.unit == "char":
                return by_rules("char")
            if 20 * sum(piece.startswith("▁") for piece in table) > len(table):
                raise TokenizerError(
                    f"these are SentencePiece pieces; put the model into {at.parent}, "
                    f"for example as {MODELS[7]}"
                )
            marked = side.joint and any(piece.endswith(side.joint) for piece in table)
            return by_rules("word", joint=side.joint if marked else "")
    except TokenizerError as error:
        raise CheckpointError(str(error)) from None


def no_piece(index: int) -> str:
    """Return the name of an id without a piece, which no text contains, since it holds spaces."""
    return f"<no piece {index}>"


def restrict(model: bytes, vocabulary: Collection[str]) -> bytes:
    """Mark ordinary pieces as unused unless in the vocabulary or a single character.

    Args: model: serialized SentencePiece `ModelProto`; unknown fields stay.

    Raises: `TokenizerError` if the bytes are not such a message.
    """
    kinds = ModelProto.SentencePiece
    try:
        proto = ModelProto.FromString(model)
        for piece in proto.pieces:
            text = piece.piece
            if piece.type == kinds.NORMAL and len(text) > 1 and text not in vocabulary:
                piece.type = kinds.UNUSED
    except (DecodeError, UnicodeDecodeError):
        raise TokenizerError("not a SentencePiece model (damaged, or another format)") from None
    return bytes(proto.SerializeToString())


def first_there(folder: Path, names: Iterable[str], language: str = "") -> Path | None:
    """Return the first of these files that exists in a folder; {} in a name is the language."""
    usable = (name for name in names if language or "{}" not in name)
    paths = (folder / name.format(language) for name in usable)
    return next(filter(is_there, paths), None)


def beside(folder: Path, named: str) -> Path:
    """Return the file in the model's folder for a path on another machine.

    Raises: `CheckpointError` if the path has no file name.
    """
    name = named.replace("\\", "/").rpartition("/")[2]
    if name in ("", ".", ".."):
        raise CheckpointError(f"{folder}: {named!r:.80} names no file")
    return folder / name


def find_checkpoints(folder: Path, names: Sequence[str], pattern: str) -> list[Path]:
    """Return the file itself, or the first of these files in a folder, or all that match a pattern.

    Raises: `CheckpointError` if no file exists.
    """
    if not is_there(folder):
        raise CheckpointError(f"{folder}: no such folder or file")
    first = first_there(folder, names) if is_folder(folder) else folder
    paths = [first] if first else sorted(folder.glob(pattern))
    if not paths:
        raise CheckpointError(f"{folder / names[0]}: the file is missing")
    return paths


def check_sides(
    stored: Stored, sides: tuple[Segmenter, Segmenter], embeddings: tuple[str, str], tied: str
) -> None:
    """Compare the vocabularies with each other and with the stored embeddings.

    Args:
        embeddings: names of source and target embeddings.
        tied: setting by which both sides share their pieces, or "".

    Raises: `CheckpointError` naming both files.
    """
    (source_at, source), (target_at, target) = (side.table for side in sides)
    if tied and source != target:
        raise CheckpointError(f"{target_at}: not the pieces of {source_at.name}, but {tied}")
    for side, name in zip(sides, embeddings, strict=True):
        at, table = side.table
        rows = stored.found[name][0][:1] if name in stored.found else ()
        if rows and rows[0] != len(table):
            raise CheckpointError(
                f"{at}: {len(table):,} pieces with the special ones, but {stored.path.name} has "
                f"{rows[0]:,}"
            )
