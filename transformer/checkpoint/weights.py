"""Reads untrusted weight files.

Weights are numbers, never code: safetensors, or torch files with `weights_only=True`. Names, shapes
and types are compared with the config before memory is allocated for a model. No file is mapped, so
one that is overwritten or truncated meanwhile is refused like any damaged one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from transformer.checkpoint.outline import outline
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import check_unchanged, is_there, open_file
from transformer.files.safetensors_file import MAX_HEADER, read_header, read_part
from transformer.files.torch_file import read_torch

__all__ = ["CheckpointError"]  # is at home in a module without torch

SAFETENSORS, TORCH_FILE = "model.safetensors", "model.pt"


def stored_names(config: ModelConfig) -> dict[str, str]:
    """Return the names of tied tensors, each with the name under which it is stored."""
    if config.tie_embeddings == "all":
        names = ("tgt_embedding.weight", "generator.weight")
        return dict.fromkeys(names, "src_embedding.weight")
    if config.tie_embeddings == "decoder":
        return {"generator.weight": "tgt_embedding.weight"}
    return {}


@lru_cache(maxsize=64)
def expected_shapes(config: ModelConfig) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of every tensor in the model's state dict, without allocating any."""
    return {name: tuple(tensor.shape) for name, tensor in outline(config).state_dict().items()}


def _weights_file(folder: Path) -> Path:
    if not is_there(folder / SAFETENSORS) and is_there(folder / TORCH_FILE):
        return folder / TORCH_FILE
    return folder / SAFETENSORS


#: A stored tensor: its shape and the name of its type.
Described = tuple[tuple[int, ...], str]


def describe_weights(path: Path) -> dict[str, Described]:
    """Return the shape and type of every tensor in a weight file without reading its numbers."""
    if path.suffix != ".safetensors":
        state = _state_dict(path, read_torch(path, shapes_only=True), "meta")
        return {name: describe(tensor) for name, tensor in state.items()}
    with open_file(path) as (file, status):
        parts = read_header(path, file, status.st_size)
    return {name: (part.shape, part.dtype) for name, part in parts.items()}


def read_tensors(path: Path, described: Mapping[str, Described]) -> Iterator[tuple[str, Tensor]]:
    """Yield copies of a weight file's tensors in their stored types.

    Each is read only when the previous one has been consumed, so that a caller that converts them
    holds the numbers once, not twice.

    Args:
        described: the tensors to read, as `describe_weights` returned them.

    Raises: `CheckpointError` naming the file, also if it has been replaced since it was described
        or changes before the last tensor is read.
    """
    if path.suffix != ".safetensors":
        yield from _torch_tensors(path, described)
        return
    with open_file(path) as (file, status):
        parts = read_header(path, file, status.st_size)
        for name, (shape, dtype) in described.items():
            if name not in parts or parts[name][:2] != (shape, dtype):
                raise _changed(path)
            yield name, read_part(path, file, parts[name])
        check_unchanged(path, file, status)


def _torch_tensors(path: Path, described: Mapping[str, Described]) -> Iterator[tuple[str, Tensor]]:
    state = _state_dict(path, read_torch(path), "cpu")
    for name in state.keys() - described.keys():
        del state[name]
    shared = Counter(tensor.untyped_storage().data_ptr() for tensor in state.values())
    for name in described:
        if name not in state or describe(state[name]) != described[name]:
            raise _changed(path)
        tensor = state.pop(name).detach()
        storage = tensor.untyped_storage()
        alone = shared[storage.data_ptr()] == 1 and storage.nbytes() == tensor.nbytes
        yield name, tensor if alone else tensor.clone()


def _changed(path: Path) -> CheckpointError:
    return CheckpointError(f"{path}: changed while it was read")


def check_weights(folder: Path, config: ModelConfig) -> None:
    """Compare names, shapes and types with the config, reading only the header if there is one."""
    path = _weights_file(folder)
    _compare(path, config, describe_weights(path))


def describe(tensor: Tensor) -> Described:
    """Return a tensor's shape and the name of its type, as safetensors files write it."""
    return tuple(tensor.shape), {
        torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    }.get(tensor.dtype, str(tensor.dtype))  # fmt: skip


def check_type(path: Path, name: str, dtype: str) -> None:
    """Refuse a tensor that is not floating-point."""
    if dtype not in ("F32", "F16", "BF16"):
        raise CheckpointError(
            f"{path}: tensor {name!r} is stored as {dtype}; "
            "allowed are float32, float16 and bfloat16"
        )


def check_stored(
    path: Path, name: str, found: Described, expected: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse a tensor of an unexpected name, shape or type."""
    shape, dtype = found
    if name not in expected:
        raise CheckpointError(f"{path}: tensor {name!r} does not belong to this model")
    if shape != expected[name]:
        raise CheckpointError(
            f"{path}: tensor {name!r} has shape {list(shape)}, "
            f"but config.json asks for {list(expected[name])}"
        )
    check_type(path, name, dtype)


def _compare(path: Path, config: ModelConfig, found: Mapping[str, Described]) -> None:
    expected, aliases = expected_shapes(config), stored_names(config)
    for name, described in found.items():
        check_stored(path, name, described, expected)
    stored = {aliases.get(name, name) for name in found}
    missing = [name for name in expected if aliases.get(name, name) not in stored]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"{path}: tensor {missing[0]!r}{more} is missing")


def _state_dict(path: Path, content: object, device: str) -> dict[str, Tensor]:
    """Read the state dict of a torch file, which must be plain tensors by name."""
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        content = content["model"]
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and is_plain(tensor, device) for name, tensor in content.items()
    ):
        raise CheckpointError(f"{path}: not a state dict (plain tensors by name)")
    return dict(content)


def is_plain(value: object, device: str = "cpu") -> bool:
    """Return whether this is a dense tensor on the device."""
    return (
        isinstance(value, Tensor) and value.layout is torch.strided and value.device.type == device
    )


def read_weights(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Read all tensors by stored name, in float32 on the CPU; NaN and infinity are refused."""
    path, aliases = _weights_file(folder), stored_names(config)
    described = describe_weights(path)
    _compare(path, config, described)
    check_memory(path, config)
    state: dict[str, Tensor] = {}
    for name, stored_tensor in read_tensors(path, described):
        tensor = in_memory(path, name, stored_tensor, own=True)
        stored = aliases.get(name, name)
        if stored in state and not torch.equal(state[stored], tensor):
            raise CheckpointError(
                f"{path}: tensors {name!r} and {stored!r} differ, but config.json ties them"
            )
        state[stored] = tensor
    return state


def check_memory(
    path: Path, config: ModelConfig, size: int | None = None, n_tables: int = 0
) -> None:
    """Refuse a file whose tensors claim many times more numbers than it can hold.

    Tensors of a torch file may repeat one number or overlap; one embedding may stand for three.

    Args:
        size: total bytes if there are several files.
        n_tables: numbers read besides those that the config implies.
    """
    size, most = path.stat().st_size if size is None else size, 3
    numbers = config.n_numbers + n_tables
    if 2 * numbers > most * size + MAX_HEADER:
        raise CheckpointError(
            f"{path}: {size:,} bytes are too few for the {numbers:,} numbers that its tensors claim"
        )


def in_memory(path: Path, name: str, tensor: Tensor, *, own: bool = False) -> Tensor:
    """Return a tensor in float32, contiguous; NaN and infinity are refused.

    Args:
        own: the caller owns the tensor, so one in float32 need not be copied.
    """
    tensor = tensor.detach().to(torch.float32, copy=not own).contiguous()
    if not bool(torch.isfinite(tensor).all()):
        raise CheckpointError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return tensor
