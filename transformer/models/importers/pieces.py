"""Tokenizers from the SentencePiece models or files of merges beside a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from transformer.checkpoint.shards import Stored
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import MAX_TABLE, is_folder, is_there, read_small
from transformer.text.files import blaming
from transformer.text.normalise import Preparation
from transformer.text.rules import RuleTokenizer, Unit, read_codes
from transformer.text.table import Marks, Numbered, TableTokenizer
from transformer.text.tokenizer import TokenizerError

#: Common names of SentencePiece models and codes files; {} is the language.
MODELS = (
    "sentencepiece.bpe.{}.model", "sentencepiece.{}.model", "spm.{}.model", "spm_{}.model",
    "{}.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "bpe.model",
    "sp.model",
)  # fmt: skip
CODES = (
    "bpecodes.{}", "bpe.codes.{}", "codes.{}", "code.{}", "bpe.{}.codes", "{}.codes", "bpecodes",
    "bpe.codes", "bpe-codes", "bpe_codes", "codes", "code", "codes.txt", "bpe.code",
)  # fmt: skip


@dataclass(frozen=True)
class Segmenter:
    """Rules that cut one side's text into pieces."""

    #: the vocabulary's file, and its pieces in the order of their ids
    table: tuple[Path, tuple[str, ...]]
    model: Path | None = None  # a SentencePiece model
    codes: Path | None = None  # a file of merges. Without either, the text already is segmented.
    #: applied to text before segmentation
    preparation: Preparation = field(default_factory=Preparation)
    joint: str = "@@"  # suffix of a piece that does not end its word
    within: bool = False  # use only pieces in the table
    marks: Marks = field(default_factory=Marks)  # pieces that are not text
    unit: str = "word"  # without model and codes, "char" splits everywhere and "word" at spaces


def tokenizer_of(source: Segmenter, target: Segmenter, config: ModelConfig) -> Numbered:
    """Build the tokenizers of both sides. Raises `CheckpointError` naming the file at fault."""
    if source == target:
        return _build(source, config)
    return _build(source, config, _build(target, config))


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
                    f"its pieces are SentencePiece's; put the model into {at.parent}, "
                    f"named {MODELS[7]} for example"
                )
            marked = side.joint and any(piece.endswith(side.joint) for piece in table)
            return by_rules("word", joint=side.joint if marked else "")
    except TokenizerError as error:
        raise CheckpointError(str(error)) from None


def restrict(model: bytes, vocabulary: Collection[str]) -> bytes:
    """Mark every ordinary piece unused that is neither in the vocabulary nor a single character.

    Args:
        model: a serialized SentencePiece `ModelProto`; fields that this version of SentencePiece
            does not know are kept.

    Raises: `TokenizerError` if the bytes are no such message.
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
    """Return the first of these files in a folder; {} in a name is the language."""
    for name in names:
        if "{}" in name and not language:
            continue
        path = folder / name.format(language)
        if is_there(path):
            return path
    return None


def beside(folder: Path, named: str) -> Path:
    """Return the file of a setting, a path on another machine, in the model's own folder.

    Raises: `CheckpointError` if the path has no file name.
    """
    name = named.replace("\\", "/").rpartition("/")[2]
    if name in ("", ".", ".."):
        raise CheckpointError(f"{folder}: {named!r:.80} names no file")
    return folder / name


def find_checkpoints(folder: Path, names: Sequence[str], pattern: str) -> list[Path]:
    """Return the first of these files in a folder, else those matching a pattern, or the file.

    Raises: `CheckpointError` if there is none.
    """
    if not is_there(folder):
        raise CheckpointError(f"{folder}: no such folder or file")
    found = first_there(folder, names) if is_folder(folder) else folder
    others = [found] if found else sorted(folder.glob(pattern))
    if not others:
        raise CheckpointError(f"{folder / names[0]}: the file is missing")
    return others


def check_sides(
    stored: Stored, sides: tuple[Segmenter, Segmenter], embeddings: tuple[str, str], tied: str
) -> None:
    """Compare the vocabularies with each other, and with the embeddings that exist.

    Args:
        embeddings: names of the embeddings of source and target.
        tied: the setting by which both sides share their pieces, "" if they do not.

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
