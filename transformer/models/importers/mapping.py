"""Rename weights, and check them against a config before taking memory."""

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
from transformer.files.torch_file import DTYPES
from transformer.models.importers.settings import LISTS
from transformer.positions import sinusoids
from transformer.types import CheckpointError, Report

#: Parts of tensor names in a layer, here and in fairseq and Marian.
LAYER_PARTS: dict[str, str] = LISTS["names"]["fairseq_and_marian"]


class Alias(NamedTuple):
    """A place where a tensor may be stored."""

    name: str  # in the file
    first: int = 0  # first row of this tensor in the stored tensor
    total: int | None = None  # rows of the stored tensor, or None if it has no others
    leading: bool = False  # the stored tensor has a leading axis of 1


def renamed(name: str, parts: Mapping[str, str]) -> str:
    """Return the other library's name of a tensor in a stack.

    Args: parts: replacements in the names of a layer, in this order.
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
    """Return the places of an embedding or the output matrix, or [] for other tensors.

    Args: source, target, output: the library's names of the three.
    """
    tied = config.tie_embeddings
    names = {
        "src_embedding.weight": (source, target, *output) if tied == "all" else (source,),
        "tgt_embedding.weight": (target, *output) if tied == "decoder" else (target,),
        "generator.weight": output,
    }
    return [Alias(theirs) for theirs in names.get(name, ())]


def with_tables(
    config: ModelConfig, state: dict[str, Tensor], rounding: Callable[[int], Tensor | float]
) -> ModelConfig:
    """Remove position tables from `state` if they equal the config's sinusoids.

    Args: rounding: maps the number of positions n to the largest difference, one or [n, 1].

    Returns: the config, with stored positions if the tables stay.
    """
    tables = {name: state.pop(name) for name in POSITION_TABLES if name in state}
    n = min((len(table) for table in tables.values()), default=0)
    exact = sinusoids(config, n)
    if all(((table[:n] - exact).abs() <= rounding(n)).all() for table in tables.values()):
        return config
    state |= {name: tables.get(name, exact)[:n].contiguous() for name in POSITION_TABLES}
    return config.replace(positions="stored", max_positions=n)


def gather(
    stored: Stored,
    shapes: Mapping[str, Shape],
    names: Mapping[str, Sequence[Alias]],
    *,
    ignored: str = "(?!)",
    origin: str,
    report: Report | None = None,
) -> tuple[dict[str, Tensor], str]:
    """Return weights in float32 by this project's names, and the type to store them in.

    Args:
        stored: description of the other library's weights.
        shapes: expected shapes by this project's names.
        names: places of every tensor. If several exist, they are tied and must be equal.
        ignored: pattern of tensor names that are not needed.
        origin: file with the expected shapes, for messages.
        report: called with (tensors read, total).

    Raises: `CheckpointError`, one line that names the file.
    """
    places: dict[str, list[Alias]] = {}
    for name, aliases in names.items():
        places[name] = [alias for alias in aliases if alias.name in stored.found]
        if not places[name]:
            raise CheckpointError(f"{stored.path}: tensor {aliases[0].name!r} is missing")
        for alias in places[name]:
            expected = shapes[name] if alias.total is None else (alias.total, *shapes[name][1:])
            expected = (1, *expected) if alias.leading else expected
            shape, kind = stored.found[alias.name]
            path = stored.files[alias.name]
            if shape != expected:
                raise CheckpointError(
                    f"{path}: tensor {alias.name!r} has shape {list(shape)}, "
                    f"but {origin} requires {list(expected)}"
                )
            check_type(path, alias.name, kind)
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
                    f"but {origin} ties them"
                )
    types = {
        stored.found[alias.name][1]
        for name, aliases in places.items() if name not in POSITION_TABLES
        for alias in aliases
    }  # fmt: skip
    dtype = DTYPES[types.pop()] if len(types) == 1 else torch.float32
    return state, str(dtype).removeprefix("torch.")


def _part(stored: Stored, tensors: Mapping[str, Tensor], alias: Alias, shape: Shape) -> Tensor:
    tensor = tensors[alias.name]
    if alias.total is not None:
        tensor = tensor[alias.first : alias.first + shape[0]]
    return in_memory(stored.files[alias.name], alias.name, tensor).reshape(shape)
