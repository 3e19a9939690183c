"""Reading weight files that may come from anywhere.

Weights are numbers and never code: safetensors, or torch files with `weights_only=True`. Names,
shapes and types are compared with the config before memory is taken for a model.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from transformer.checkpoint.outline import outline
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.pickles import check_pickles
from transformer.files.safe import check_file, is_there

__all__ = ["CheckpointError"]  # is at home in a module without torch

SAFETENSORS, TORCH_FILE = "model.safetensors", "model.pt"
#: Longest header of a safetensors file, in bytes; 200 layers need less than a tenth.
MAX_HEADER = 16 * 1024 * 1024
#: Most tensors in a file; 200 layers need less than half.
MAX_TENSORS = 20_000


def stored_names(config: ModelConfig) -> dict[str, str]:
    """Names of tied tensors, each with the name under which it is stored."""
    if config.tie_embeddings == "all":
        names = ("tgt_embedding.weight", "generator.weight")
        return dict.fromkeys(names, "src_embedding.weight")
    if config.tie_embeddings == "decoder":
        return {"generator.weight": "tgt_embedding.weight"}
    return {}


@lru_cache(maxsize=64)
def expected_shapes(config: ModelConfig) -> Mapping[str, tuple[int, ...]]:
    """Every tensor of the model's state dict and its shape; takes no memory."""
    return {name: tuple(tensor.shape) for name, tensor in outline(config).state_dict().items()}


def _weights_file(folder: Path) -> Path:
    if not is_there(folder / SAFETENSORS) and is_there(folder / TORCH_FILE):
        return folder / TORCH_FILE
    return folder / SAFETENSORS


#: A stored tensor: its shape and the name of its type.
Described = tuple[tuple[int, ...], str]


def describe_weights(path: Path) -> dict[str, Described]:
    """Names, shapes and types in a weight file, from its header alone where it has one."""
    if path.suffix != ".safetensors":
        return {name: _describe(tensor) for name, tensor in _open_torch(path).items()}
    with _open_safetensors(path) as file:
        found, names = {}, file.keys()
        if len(names) > MAX_TENSORS:
            raise CheckpointError(
                f"{path}: {len(names):,} tensors; at most {MAX_TENSORS:,} are looked at"
            )
        for name in names:
            part = file.get_slice(name)
            found[name] = (tuple(part.get_shape()), str(part.get_dtype()))
    return found


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a weight file as it is stored, mapped from disk where its format allows."""
    if path.suffix != ".safetensors":
        return _open_torch(path)
    with _open_safetensors(path) as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}


def check_weights(folder: Path, config: ModelConfig) -> None:
    """Compare names, shapes and types with the config, from the header alone where there is one."""
    path = _weights_file(folder)
    _compare(path, config, describe_weights(path))


def _describe(tensor: Tensor) -> Described:
    return tuple(tensor.shape), {
        torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    }.get(tensor.dtype, str(tensor.dtype))  # fmt: skip


def check_type(path: Path, name: str, dtype: str) -> None:
    """Refuse a tensor that is not of floating-point numbers."""
    if dtype not in ("F32", "F16", "BF16"):
        raise CheckpointError(
            f"{path}: tensor {name!r} is stored as {dtype}; "
            "allowed are float32, float16 and bfloat16"
        )


def _compare(path: Path, config: ModelConfig, found: Mapping[str, Described]) -> None:
    expected, aliases = expected_shapes(config), stored_names(config)
    for name, (shape, dtype) in found.items():
        if name not in expected:
            raise CheckpointError(f"{path}: tensor {name!r} does not belong to this model")
        if shape != expected[name]:
            raise CheckpointError(
                f"{path}: tensor {name!r} has shape {list(shape)}, "
                f"but config.json asks for {list(expected[name])}"
            )
        check_type(path, name, dtype)
    stored = {aliases.get(name, name) for name in found}
    missing = [name for name in expected if aliases.get(name, name) not in stored]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"{path}: tensor {missing[0]!r}{more} is missing")


def _open_safetensors(path: Path) -> Any:
    """The file, opened; its header has been read and fits the file's length."""
    size = check_file(path)
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if MAX_HEADER < header <= size:
            raise CheckpointError(
                f"{path}: a header of {header:,} bytes; at most {MAX_HEADER:,} are read"
            )
        return safetensors.safe_open(path, framework="pt", device="cpu")
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None
    except RuntimeError:  # from torch, which maps the file: one with holes may be of any length
        raise CheckpointError(f"{path}: {size:,} bytes, more than can be opened here") from None


def _open_torch(path: Path) -> dict[str, Tensor]:
    """A torch file's state dict, mapped from disk where its format allows that."""
    check_file(path)
    check_pickles(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that torch did not write
            content = torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
            )
    except pickle.UnpicklingError:
        raise CheckpointError(
            f"{path}: holds more than weights, or is damaged; "
            "it is not loaded, since it could run code"
        ) from None
    except Exception as error:  # noqa: BLE001 - the network and the hub can fail anyhow
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: not a whole torch file ({reason})") from None
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        content = content["model"]
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and _is_plain(tensor) for name, tensor in content.items()
    ):
        raise CheckpointError(f"{path}: not a state dict (plain tensors by name)")
    return content


def _is_plain(value: object) -> bool:
    """Whether this is a dense tensor with its numbers at hand."""
    return (
        isinstance(value, Tensor) and value.layout is torch.strided and value.device.type == "cpu"
    )


def read_weights(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """All tensors by their stored names, in float32 on the CPU; NaN and infinity are refused."""
    check_weights(folder, config)
    path, aliases = _weights_file(folder), stored_names(config)
    check_memory(path, config)
    tensors = read_tensors(path)
    # Another file may lie there by now than the one that was checked.
    _compare(path, config, {name: _describe(tensor) for name, tensor in tensors.items()})
    state: dict[str, Tensor] = {}
    for name, stored_tensor in tensors.items():
        tensor = in_memory(path, name, stored_tensor)
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
    """Refuse a file that claims many times the numbers that it can hold.

    Tensors of a torch file may repeat one number, or lie on top of each other; one embedding may
    stand for three.

    Args:
        size: bytes of all files together, where `path` is not the only one.
        n_tables: numbers that are read beside those that the config tells of.
    """
    size, most = path.stat().st_size if size is None else size, 3
    numbers = config.n_numbers + n_tables
    if 2 * numbers > most * size + MAX_HEADER:
        raise CheckpointError(
            f"{path}: {size:,} bytes are too few for the {numbers:,} numbers that its tensors claim"
        )


def in_memory(path: Path, name: str, tensor: Tensor) -> Tensor:
    """A float32 copy, which does not change when the file does; NaN and infinity are refused."""
    tensor = tensor.detach().to(torch.float32, copy=True).contiguous()
    if not bool(torch.isfinite(tensor).all()):
        raise CheckpointError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return tensor
