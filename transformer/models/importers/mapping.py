"""Renames weights, and checks them against a config before taking memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.checkpoint.folder import POSITION_TABLES
from transformer.checkpoint.shards import Stored
from transformer.checkpoint.weights import Shape, check_memory, check_type, in_memory
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safetensors_file import DTYPES
from transformer.positions import sinusoids
from transformer.types import Report

#: Parts of a layer's tensor names here and in fairseq, whose names Marian models use too.
LAYER_PARTS = {
    "around_self.norm": "self_attn_layer_norm",
    "around_cross.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "w_q": "q_proj",
    "w_k": "k_proj",
    "w_v": "v_proj",
    "w_o": "out_proj",
}


class Alias(NamedTuple):
    """A place where a tensor may be stored."""

    name: str  # in the file
    #: first, total: if only a part, the rows from `first` of a tensor of `total` rows
    first: int = 0
    total: int | None = None
    leading: bool = False  # it has a first axis of one entry


def renamed(name: str, parts: Mapping[str, str]) -> str:
    """Return the other library's name of a tensor of a stack.

    Args: parts: replacements of parts of a layer's names, in this order.
    """
    stack, number, part = [*name.split(".", 2), ""][:3]
    if not number.isdigit():
        return name.replace("_norm.", ".layer_norm.")
    for ours, theirs in parts.items():
        part = part.replace(ours, theirs)
    return f"{stack}.layers.{number}.{part}"


def embedding_aliases(
    name: str, config: ModelConfig, source: str, target: str, *output: str
) -> list[Alias]:
    """Return the places of an embedding or the output matrix, tied ones included; else [].

    Args: source, target, output: that library's names of the three; the last may have several.
    """
    tied = config.tie_embeddings
    names = {
        "src_embedding.weight": (source, target, *output) if tied == "all" else (source,),
        "tgt_embedding.weight": (target, *output) if tied == "decoder" else (target,),
        "generator.weight": output,
    }
    return [Alias(each) for each in names.get(name, ())]


def with_tables(
    config: ModelConfig,
    state: dict[str, Tensor],
    rounding: Callable[[int], Tensor | float],
) -> ModelConfig:
    """Keep the tables of positions in `state` only if they differ from the sinusoids of the config.

    Args: rounding: largest difference in a table of so many positions, or that of each, [n, 1].

    Returns: the config, whose positions are stored if the tables stay.
    """
    tables = {name: state.pop(name) for name in POSITION_TABLES if name in state}
    n = min((len(table) for table in tables.values()), default=0)
    exact = sinusoids(config, n)
    if all(bool(((each[:n] - exact).abs() <= rounding(n)).all()) for each in tables.values()):
        return config
    state |= {name: tables.get(name, exact)[:n].contiguous() for name in POSITION_TABLES}
    return config.replace(positions="stored", max_positions=n)


def gather(
    stored: Stored,
    shapes: Mapping[str, Shape],
    names: Mapping[str, Sequence[Alias]],
    *,
    ignored: str = "(?!)",
    said_by: str,
    report: Report | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return weights in float32 by this project's names, and the type to store them in.

    Args:
        stored: the weights of the other library, described.
        shapes: expected shapes by this project's names.
        names: where each may be stored. If several of these exist, they are tied and must be equal.
        ignored: pattern of the names of tensors that are not needed.
        said_by: the origin of the expected shapes, for messages.
        report: called with (tensors read, total).

    Raises: `CheckpointError`, one line that names the file.
    """
    places: dict[str, list[Alias]] = {}
    for name, aliases in names.items():
        places[name] = [alias for alias in aliases if alias.name in stored.found]
        if not places[name]:
            raise CheckpointError(f"{stored.path}: tensor {aliases[0].name!r} is missing")
        for alias in places[name]:
            _check(stored, alias, shapes[name], said_by)
    used = {alias.name for aliases in places.values() for alias in aliases}
    for name in stored.found:
        if name not in used and not re.fullmatch(ignored, name):
            raise CheckpointError(f"{stored.path}: tensor {name!r} does not belong to this model")
    check_memory(stored.path, sum(math.prod(shapes[name]) for name in names), stored.size)
    tensors = stored.tensors()
    state: dict[str, Tensor] = {}
    for name, (alias, *others) in places.items():
        if report is not None:
            report(len(state), len(places))
        state[name] = _part(stored, tensors, alias, shapes[name])
        for other in others:
            if not torch.equal(state[name], _part(stored, tensors, other, shapes[name])):
                raise CheckpointError(
                    f"{stored.path}: tensors {alias.name!r} and {other.name!r} differ, "
                    f"but {said_by} ties them"
                )
    types = {
        stored.found[alias.name][1]
        for name, aliases in places.items() if name not in POSITION_TABLES
        for alias in aliases
    }  # fmt: skip
    dtype = DTYPES[types.pop()] if len(types) == 1 else torch.float32
    return state, str(dtype).removeprefix("torch.")


def _check(stored: Stored, alias: Alias, shape: Shape, said_by: str) -> None:
    if alias.total is not None:
        shape = (alias.total, *shape[1:])
    if alias.leading:
        shape = (1, *shape)
    found, dtype = stored.found[alias.name]
    path = stored.files[alias.name]
    if found != shape:
        raise CheckpointError(
            f"{path}: tensor {alias.name!r} has shape {list(found)}, "
            f"but {said_by} asks for {list(shape)}"
        )
    check_type(path, alias.name, dtype)


def _part(stored: Stored, tensors: Mapping[str, Tensor], alias: Alias, shape: Shape) -> Tensor:
    tensor = tensors[alias.name]
    if alias.total is not None:
        tensor = tensor[alias.first : alias.first + shape[0]]
    return in_memory(stored.files[alias.name], alias.name, tensor).reshape(shape)
