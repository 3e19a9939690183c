"""Marian and OPUS-MT checkpoints, in the format of Hugging Face, as checkpoints of this project.

They are the paper's base architecture with small differences, each of which is a setting of
`ModelConfig`: swish for ReLU, biases on all projections and on the logits, sinusoids laid out as
sines then cosines, a decoder that starts from padding (whose embedding is zero). Their vocabulary
numbers pieces that one SentencePiece model for each language cuts.

The folder holds config.json, vocab.json, source.spm, target.spm, model.safetensors or
pytorch_model.bin, and perhaps generation_config.json and target_vocab.json. Nothing in it is
believed, see `transformer.checkpoint.weights`; no code of another library is needed or run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from transformer.importers.finish import called, card_of, check_place, finish, stored_note
from transformer.importers.marian.config import (
    CONFIG,
    GENERATION,
    TARGET_VOCABULARY,
    VOCABULARY,
    read_config,
    unknown_settings,
    vocabulary,
)
from transformer.importers.marian.weights import SHARDS, WEIGHTS, read_weights
from transformer.text.files import blaming
from transformer.text.table import TableTokenizer, table_of
from transformer.text.tokenizer import TokenizerError
from transformer.types import Report

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
#: Most ids without a piece: a vocabulary that lacks more is another model's.
MAX_HOLES = 128
#: Every file that is read.
FILES = (
    CONFIG, GENERATION, VOCABULARY, TARGET_VOCABULARY, SOURCE_MODEL, TARGET_MODEL, *WEIGHTS,
    *SHARDS,
)  # fmt: skip


def import_marian(
    folder: Path, out: Path, *, name: str | None = None, report: Report | None = None
) -> Path:
    """Read a Marian model and write it as a checkpoint.

    Args:
        folder: what Hugging Face's `save_pretrained` or the hub gave.
        out: the checkpoint's folder; must not exist yet, or be empty.
        name: what the model card calls the source; default the folder's name.
        report: called with (tensors read, of how many); may raise, which leaves nothing behind.

    Returns: `out`, which appears whole or not at all.

    Raises: `CheckpointError`, one line that names the file and says what is wrong.
    """
    check_place(out)
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config)
    config, state, dtype = read_weights(folder, config, report)
    source = called(name, folder)
    notes = _notes(config, state) + _not_done(folder)
    card = card_of(out.name, "A Marian", "marian", source, config, dtype, notes)
    return finish(
        out, config, state, tokenizer, dtype=dtype, kind="marian", source=source, card=card
    )


def read_tokenizer(folder: Path, config: ModelConfig) -> TableTokenizer:
    """SentencePiece models for both sides, numbered by vocab.json."""
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
    """The pieces with names for ids that have none; no text is cut into these, they hold a space.

    Embeddings are padded to a round number of rows, and pieces are deleted.
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


def _notes(config: ModelConfig, state: Mapping[str, Tensor]) -> str:
    start = "`<pad>`" if config.bos_id == config.pad_id else f"piece {config.bos_id}"
    positions = {
        "sinusoidal": "sinusoids laid out as sines then cosines",
        "learned": "learned positions",
        "stored": "positions from a stored table",
    }[config.positions]
    return f"""{config.activation} in the feed-forward networks, biases on all projections and on the logits,
{positions}, and a decoder that starts from {start}.{stored_note(config, state)}"""  # noqa: E501 - one line in the card


def _not_done(folder: Path) -> str:
    """A sentence on settings of decoding that this project's search does not know, "" for none."""
    names = ", ".join(f"`{name}`" for name in unknown_settings(folder))
    return f"\nIts settings for decoding also say {names}, which is not done here." if names else ""
