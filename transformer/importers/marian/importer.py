"""Checkpoints of Marian and OPUS-MT in the format of Hugging Face.

They are the paper's base architecture, and each difference is a setting of `ModelConfig`: swish for
ReLU, biases on all projections and on the logits, sinusoids laid out as sines then cosines, a
decoder that starts from padding (whose embedding is zero). A SentencePiece model for each language
splits the text, and one vocabulary numbers the pieces.

The folder holds config.json, vocab.json, source.spm, target.spm, model.safetensors or
pytorch_model.bin, and sometimes generation_config.json and target_vocab.json. Nothing in it is
trusted, see `transformer.checkpoint.weights`, and no other library's code is run.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from transformer.checkpoint.position_tables import ROUNDING, off_formula
from transformer.checkpoint.shards import Stored, describe_shards
from transformer.checkpoint.weights import layout_of
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import json_object, read_small
from transformer.importers.finish import Imported, code
from transformer.importers.mapping import LAYER_PARTS, Alias, gather, renamed
from transformer.importers.marian.config import (
    CONFIG,
    TARGET_VOCABULARY,
    VOCABULARY,
    read_config,
    unknown_settings,
    vocabulary,
)
from transformer.positions import sinusoids
from transformer.text.files import blaming
from transformer.text.table import TableTokenizer, table_of
from transformer.text.tokenizer import TokenizerError
from transformer.types import Report

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
#: Maximum number of ids without a piece; a vocabulary that lacks more is another model's.
MAX_HOLES = 128

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
STACKS = {"encoder": "model.encoder.layers", "decoder": "model.decoder.layers"}
BIAS = "final_logits_bias"
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"

#: Names of an embedding by `tie_embeddings`, in order of preference.
EMBEDDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {"src_embedding.weight": (SHARED, SOURCE, TARGET, OUTPUT)},
    "decoder": {
        "src_embedding.weight": (SOURCE,),
        "tgt_embedding.weight": (TARGET, OUTPUT),
    },
    "none": {
        "src_embedding.weight": (SOURCE, SHARED),
        "tgt_embedding.weight": (TARGET, SHARED),
        "generator.weight": (OUTPUT,),
    },
}

#: Tables of positions; older files store even sinusoids, some rounded.
TABLES = {
    "src_positions.table": "model.encoder.embed_positions.weight",
    "tgt_positions.table": "model.decoder.embed_positions.weight",
}


def read(folder: Path, report: Report | None = None) -> Imported:
    """Read a Marian model.

    If its tables of positions differ from the formula, the config's positions become "stored", or
    "learned" if config.json says that they were trained.
    """
    config = read_config(folder)
    tokenizer = read_tokenizer(folder, config)
    stored, layout = describe_shards(folder, WEIGHTS), layout_of(config)
    shapes = dict(layout.stored)
    names = {name: _aliases(name, config, stored) for name in shapes}
    if BIAS not in stored.found:
        del names["generator.bias"]
    for name, theirs in TABLES.items():
        if theirs in stored.found:
            names[name] = [Alias(theirs)]
            shapes[name] = (config.max_positions, config.d_model)
    # May be present, but is not needed.
    ignored = re.compile("(?!)" if config.tie_embeddings == "all" else re.escape(SHARED))
    state, dtype = gather(stored, shapes, names, ignored=ignored, said_by=CONFIG, report=report)
    if BIAS not in stored.found:
        state["generator.bias"] = torch.zeros(shapes["generator.bias"])
    tables = {name: state.pop(name) for name in TABLES if name in state}
    if any(off_formula(table, config) > ROUNDING for table in tables.values()):
        trained = json_object(folder / CONFIG).get("static_position_embeddings") is False
        learned = trained and len(tables) == len(TABLES)
        config = config.replace(positions="learned" if learned else "stored")
        exact = sinusoids(config)  # for a stack without a table
        state |= {name: tables.get(name, exact) for name in TABLES}
    return Imported(config, state, tokenizer, dtype, _notes(config) + _unused(folder))


def _aliases(name: str, config: ModelConfig, stored: Stored) -> list[Alias]:
    """Return the places of a tensor in a Marian file."""
    if name == "generator.bias":
        return [Alias(BIAS, leading=True)]
    theirs = renamed(name, STACKS, LAYER_PARTS)
    if theirs is not None:
        return [Alias(theirs)]
    places = [Alias(each) for each in EMBEDDINGS[config.tie_embeddings][name]]
    if config.tie_embeddings == "none":  # copies may differ, so only the first counts
        places = [each for each in places if each.name in stored.found][:1] or places
    return places


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
