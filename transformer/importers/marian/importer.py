"""Imports Marian and OPUS-MT checkpoints in the format of Hugging Face.

They are the paper's base architecture, and each difference is a setting of `ModelConfig`: swish for
ReLU, biases on all projections and on the logits, sinusoids laid out as sines then cosines, a
decoder that starts from padding (whose embedding is zero). A SentencePiece model for each language
splits the text, and one vocabulary numbers the pieces.

The folder holds config.json, vocab.json, source.spm, target.spm, model.safetensors or
pytorch_model.bin, and sometimes generation_config.json and target_vocab.json. Nothing in it is
trusted, see `transformer.checkpoint.weights`, and no other library's code is run.
"""

from __future__ import annotations

from pathlib import Path

from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from transformer.importers.finish import check_place, code, finish
from transformer.importers.marian.config import (
    CONFIG,
    TARGET_VOCABULARY,
    VOCABULARY,
    read_config,
    unknown_settings,
    vocabulary,
)
from transformer.importers.marian.weights import read_weights
from transformer.text.files import blaming
from transformer.text.table import TableTokenizer, table_of
from transformer.text.tokenizer import TokenizerError
from transformer.types import Report

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
#: Maximum number of ids without a piece; a vocabulary that lacks more is another model's.
MAX_HOLES = 128


def import_marian(
    folder: Path, out: Path, *, name: str | None = None, report: Report | None = None
) -> Path:
    """Read a Marian model and write it as a checkpoint: a `registry.Importer`."""
    check_place(out)
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config)
    config, state, dtype = read_weights(folder, config, report)
    return finish(
        out, config, state, tokenizer, dtype=dtype, kind="marian",
        source=name or folder.resolve().name, notes=_notes(config) + _unused(folder),
    )  # fmt: skip


def read_tokenizer(folder: Path, config: ModelConfig) -> TableTokenizer:
    """Read the SentencePiece models of both sides, with the ids of vocab.json."""
    separate = config.tie_embeddings != "all" and (folder / TARGET_VOCABULARY).exists()
    tables = (VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY)
    sizes = config.vocab_size, config.target_vocab_size
    for name, size in zip(tables, sizes, strict=True):
        _check_vocabulary(folder / name, size, config)
    try:
        target = _side(folder, TARGET_MODEL, (tables[1], sizes[1]), config)
        return _side(folder, SOURCE_MODEL, (tables[0], sizes[0]), config, target)
    except TokenizerError as error:
        raise CheckpointError(f"{folder}/{error}") from None


def _side(
    folder: Path,
    model: str,
    vocabulary_of: tuple[str, int],
    config: ModelConfig,
    target: TableTokenizer | None = None,
) -> TableTokenizer:
    table_file, size = vocabulary_of
    with blaming(table_file):
        table = table_of(_whole(vocabulary(folder / table_file), size))
    with blaming(model):
        return TableTokenizer(read_small(folder / model), table, config, target)


def _whole(ids: dict[str, int], size: int) -> dict[str, int]:
    """Name the ids without a piece, left by deleted pieces and by padding to a round number.

    No text is split into these names, since they hold a space.
    """
    free = sorted({*range(size)} - {*ids.values()}) if len(ids) < size else []
    return ids | {f"<no piece {index}>": index for index in free}


def _check_vocabulary(path: Path, size: int, config: ModelConfig) -> None:
    ids = vocabulary(path)
    if not len(ids) <= size <= len(ids) + min(MAX_HOLES, len(ids) // 10):
        raise CheckpointError(f"{path}: {len(ids):,} pieces, but {CONFIG} asks for {size:,}")
    for piece, name, wanted in (
        ("<pad>", "pad_token_id", config.pad_id),
        ("</s>", "eos_token_id", config.eos_id),
    ):
        if ids.get(piece) != wanted:
            raise CheckpointError(
                f"{path}: {piece} is {ids.get(piece, 'missing')}, but {CONFIG} says {name}={wanted}"
            )


def _notes(config: ModelConfig) -> str:
    start = "`<pad>`" if config.bos_id == config.pad_id else f"piece {config.bos_id}"
    positions = {
        "sinusoidal": "sinusoids laid out as sines then cosines",
        "learned": "learned positions",
        "stored": "positions from a stored table",
    }[config.positions]
    return f"""{config.activation} in the feed-forward networks, biases on all projections and on the logits,
{positions}, and a decoder that starts from {start}."""  # noqa: E501 - one line in the card


def _unused(folder: Path) -> str:
    """Return a sentence on the generation settings that have no effect here, "" for none."""
    names = ", ".join(code(name) for name in unknown_settings(folder))
    return f"\nGeneration settings that have no effect here: {names}." if names else ""
