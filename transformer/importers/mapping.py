"""Renames weights, and checks them against a config before taking memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.checkpoint.shards import Stored
from transformer.checkpoint.weights import Shape, check_memory, check_type, in_memory
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.types import Report

_STORED = {"F16": "float16", "BF16": "bfloat16"}

#: Tables of positions by this project's names, stored in float32 whatever the type of the others.
POSITIONS = ("src_positions.table", "tgt_positions.table")

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
    """A place where a tensor may be stored.

    Attributes:
        name: in the file.
        first, total: if only a part, the rows from `first` of a tensor of `total` rows.
        leading: it has a first axis of one entry.
    """

    name: str
    first: int = 0
    total: int | None = None
    leading: bool = False


def renamed(name: str, layers: Mapping[str, str], parts: Mapping[str, str]) -> str | None:
    """Return the other library's name of a layer's tensor; None if it belongs to no layer.

    Args:
        layers: the names of "encoder" and "decoder", up to the number of the layer.
        parts: replacements of parts of names, in this order.
    """
    stack, number, part = [*name.split(".", 2), "", ""][:3]
    if stack not in layers or not number.isdigit():
        return None
    for ours, theirs in parts.items():
        part = part.replace(ours, theirs)
    return f"{layers[stack]}.{number}.{part}"


def embedding_aliases(
    name: str, config: ModelConfig, source: str, target: str, *output: str
) -> tuple[str, ...] | None:
    """Return the other library's names of an embedding or the output matrix, tied ones included.

    Args: source, target, output: that library's names of the three; the last may have several.
    """
    tied = config.tie_embeddings
    if name == "src_embedding.weight":
        return (source, target, *output) if tied == "all" else (source,)
    if name == "tgt_embedding.weight":
        return (target, *output) if tied == "decoder" else (target,)
    return output if name == "generator.weight" else None


def gather(
    stored: Stored,
    shapes: Mapping[str, Shape],
    names: Mapping[str, Sequence[Alias]],
    *,
    ignored: re.Pattern[str],
    said_by: str,
    report: Report | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return weights in float32 by this project's names, and the type to store them in.

    Args:
        stored: the weights of the other library, described.
        shapes: expected shapes by this project's names.
        names: where each may be stored. If several of these exist, they are tied and must be equal.
        ignored: names of tensors that are not needed.
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
        if name not in used and not ignored.fullmatch(name):
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
        for name, aliases in places.items() if name not in POSITIONS
        for alias in aliases
    }  # fmt: skip
    return state, _STORED.get(types.pop(), "float32") if len(types) == 1 else "float32"


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
