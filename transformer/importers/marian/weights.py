"""The weights of a Marian checkpoint, under this project's names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from transformer.checkpoint.position_tables import ROUNDING, off_formula
from transformer.checkpoint.shards import describe_shards
from transformer.checkpoint.weights import (
    Described,
    check_memory,
    check_stored,
    in_memory,
    layout_of,
)
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import json_object
from transformer.importers.mapping import LAYER_PARTS
from transformer.importers.marian.config import CONFIG
from transformer.machinery.stored_positions import formula
from transformer.types import Report

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"

#: Names of an embedding by `tie_embeddings`; the first one present counts.
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
POSITIONS = {
    "src_positions.table": "model.encoder.embed_positions.weight",
    "tgt_positions.table": "model.decoder.embed_positions.weight",
}


def names_of(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Return every tensor that the model stores, with its possible names in a Marian file."""
    names: dict[str, tuple[str, ...]] = {}
    for name in layout_of(config).stored:
        side, _, rest = name.partition(".")
        if name == "generator.bias":
            names[name] = ("final_logits_bias",)
        elif side in ("encoder", "decoder"):
            layer, _, part = rest.partition(".")
            for ours, theirs in LAYER_PARTS.items():
                part = part.replace(ours, theirs)
            names[name] = (f"model.{side}.layers.{layer}.{part}",)
        else:
            names[name] = EMBEDDINGS[config.tie_embeddings][name]
    return names


def read_weights(
    folder: Path, config: ModelConfig, report: Report | None = None
) -> tuple[ModelConfig, dict[str, Tensor], str]:
    """Return the config, the weights in float32 by this project's names, and their stored type.

    If tables of positions differ from the formula, the config's positions become "stored", or
    "learned" if config.json says that they were trained. `report` is called with (tensors read,
    total).
    """
    stored = describe_shards(folder, WEIGHTS)
    path, found = stored.path, stored.found
    names = {
        name: tuple(each for each in theirs if each in found)
        for name, theirs in names_of(config).items()
    }
    _check_tensors(path, config, names, found)
    n_tables = sum(math.prod(found[each][0]) for each in POSITIONS.values() if each in found)
    check_memory(path, config.n_numbers + n_tables, stored.size)
    tensors = stored.tensors()
    state: dict[str, Tensor] = {}
    for name, shape in layout_of(config).stored.items():
        if report is not None:
            report(len(state), len(names))
        if not names[name]:  # logits without a bias
            state[name] = torch.zeros(shape)
            continue
        first, *others = names[name]
        state[name] = in_memory(stored.files[first], first, tensors[first]).reshape(shape)
        for other in others if config.tie_embeddings != "none" else ():
            if not torch.equal(tensors[other].float().reshape(shape), state[name]):
                raise CheckpointError(
                    f"{path}: tensors {first!r} and {other!r} differ, but {CONFIG} ties them"
                )
    tables = {
        name: in_memory(stored.files[theirs], theirs, tensors[theirs])
        for name, theirs in POSITIONS.items()
        if theirs in found
    }
    if any(off_formula(table, config) > ROUNDING for table in tables.values()):
        trained = json_object(folder / CONFIG).get("static_position_embeddings") is False
        learned = trained and len(tables) == len(POSITIONS)
        config = config.replace(positions="learned" if learned else "stored")
        exact = formula(config)  # for a stack without a table
        state |= {name: tables.get(name, exact) for name in POSITIONS}
    return config, state, _stored_as(found)


def _stored_as(found: Mapping[str, Described]) -> str:
    """Return the type to store the weights in: half precision if all but the positions are."""
    types = {dtype for name, (_, dtype) in found.items() if name not in POSITIONS.values()}
    halves = {"F16": "float16", "BF16": "bfloat16"}
    return halves.get(types.pop(), "float32") if len(types) == 1 else "float32"


def _check_tensors(
    path: Path,
    config: ModelConfig,
    names: Mapping[str, tuple[str, ...]],
    found: Mapping[str, Described],
) -> None:
    """Compare names, shapes and types with the config before taking memory."""
    expected = layout_of(config).shapes
    wanted: dict[str, tuple[int, ...]] = {}
    for name, theirs in names.items():
        if not theirs and name != "generator.bias":
            raise CheckpointError(f"{path}: tensor {names_of(config)[name][0]!r} is missing")
        shape = expected[name]
        # The bias of the logits is stored as a row.
        wanted |= dict.fromkeys(theirs, (1, *shape) if name == "generator.bias" else shape)
    positions = (config.max_positions, config.d_model)
    wanted |= dict.fromkeys(POSITIONS.values(), positions)
    for name, described in found.items():
        if name == SHARED and config.tie_embeddings != "all":
            continue  # may be present, but is not needed
        check_stored(path, name, described, wanted)
