"""Reads untrusted weight files.

Weights are numbers, never code: safetensors, or torch files with `weights_only=True`. Names, shapes
and types are compared with the config before memory is allocated. No file is mapped, so a file that
changes during a read is refused like a damaged file.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer.checkpoint.reference import SNAPSHOTS, ModelRef, at
from transformer.config import ModelConfig
from transformer.files.safe import MAX_CACHED, check_file, check_unchanged, is_there, open_file
from transformer.files.torch_file import DTYPES, MAX_HEADER, read_header, read_part, read_torch
from transformer.model import Transformer
from transformer.positions import sinusoids
from transformer.types import CheckpointError

#: Maximum error of float32 sinusoids that were rounded once.
ROUNDING = 2.0**-23
#: Maximum error of sinusoids that were rounded to half precision.
HALF_ROUNDING = 5e-3


def digest(data: bytes) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()[:12]


def weights_digest(folder: Path) -> str:
    """Return the digest of a checkpoint's weight file or shards, "" if they are missing.

    A snapshot's digest is `DIGEST@UPDATES` of its file. Digests are cached by file version.
    """
    ref = ModelRef.of(folder)
    file = weights_file(ref.folder) if ref.updates is None else ref.folder / SNAPSHOTS
    try:
        files = [file] if is_there(file) else sorted(ref.folder.glob("*-?????-of-?????.*"))
        statuses = [path.stat() for path in files]
        version = tuple((status.st_size, status.st_mtime_ns, status.st_ino) for status in statuses)
        return at(_digest_of(tuple(files), version), ref.updates) if files else ""
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=MAX_CACHED)
def _digest_of(files: tuple[Path, ...], version: Hashable) -> str:
    del version  # part of the key
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()[:12]


def off_formula(table: Tensor, config: ModelConfig) -> float:
    """Return the largest difference between a table [n, d_model] and the sinusoids."""
    exact = sinusoids(config, table.size(0)).to(table.device)
    return float((table.float() - exact).abs().max())


def about_stored(tables: Mapping[str, Tensor], config: ModelConfig) -> str:
    """Describe the stacks' stored position tables [n, d_model] in one sentence."""
    kinds = {stack: about_table(table, config) for stack, table in tables.items()}
    contents = (
        f"it holds {next(iter(kinds.values()))}"
        if len(set(kinds.values())) == 1
        else ", ".join(f"the {stack}'s holds {kind}" for stack, kind in kinds.items())
    )
    size = " × ".join(f"{n:,}" for n in next(iter(tables.values())).shape)
    return f"The positions are a stored table of {size} numbers, not computed: {contents}."


def about_table(table: Tensor, config: ModelConfig) -> str:
    """Describe a stored table [n, d_model] in a few words."""
    off = off_formula(table, config)
    if off <= ROUNDING:
        return "exactly the sinusoids of the formula"
    distance = f"(largest difference to the formula: {off:.1e})"
    if off > HALF_ROUNDING:
        return f"no sinusoids {distance}"
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(table.to(dtype).to(table.dtype), table):
            name = str(dtype).removeprefix("torch.")
            return f"sinusoids rounded to 16 bits each, as {name} {distance}"
    return f"sinusoids of less than float32's precision {distance}"


SAFETENSORS, TORCH_FILE = "model.safetensors", "model.pt"

#: Functions of `torch.nn.init` and methods of tensors that draw initial values.
_INITIALISERS = frozenset(("kaiming_uniform_", "normal_", "uniform_", "xavier_uniform_"))

Shape = tuple[int, ...]

Model = TypeVar("Model", bound=nn.Module)


class SkipInit(TorchFunctionMode):
    """Skip weight initialisation.

    On the meta device it does nothing, but makes torch import its compiler, which takes longer
    than everything else before a first translation.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _INITIALISERS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def outline(config: Any, build: Callable[[Any], Model]) -> Model:
    """Return a model on the meta device, where tensors take no memory."""
    with torch.device("meta"), SkipInit():
        return build(config)


@dataclass(frozen=True, eq=False)
class Layout:
    """Tensors of a model in its weight file."""

    shapes: Mapping[str, Shape]  # by name in the model's state dict
    tied: Mapping[str, str]  # name in the file of each tied tensor

    @classmethod
    def of(cls, model: nn.Module) -> Self:
        """Return a model's layout. Tied tensors are one parameter, stored by its first name."""
        first: dict[int, str] = {}
        every = model.named_parameters(remove_duplicate=False)
        tied = {name: first.setdefault(id(tensor), name) for name, tensor in every}
        shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        return cls(shapes, {name: stored for name, stored in tied.items() if name != stored})

    @cached_property
    def stored(self) -> dict[str, Shape]:
        """Shapes of the tensors in the file."""
        return {name: shape for name, shape in self.shapes.items() if name not in self.tied}

    def own(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a state dict without its tied tensors."""
        return {name: tensor for name, tensor in state.items() if name not in self.tied}

    def whole(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict of stored tensors."""
        return {**state, **{name: state[stored] for name, stored in self.tied.items()}}

    def fill(self, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        """Assign stored weights to an outline of the model, and tie the other tensors."""
        model.load_state_dict(self.whole(state), assign=True)
        for name, stored in self.tied.items():
            module, _, part = name.rpartition(".")
            setattr(model.get_submodule(module), part, model.get_parameter(stored))


@lru_cache(maxsize=64)
def layout_of(config: Hashable, build: Callable[[Any], nn.Module] = Transformer) -> Layout:
    """Return the layout of the model with this config, without allocating tensors."""
    return Layout.of(outline(config, build))


def weights_file(folder: Path) -> Path:
    """Return the path of a checkpoint's weights."""
    if not is_there(folder / SAFETENSORS) and is_there(folder / TORCH_FILE):
        return folder / TORCH_FILE
    return folder / SAFETENSORS


#: Shape and type name of a stored tensor.
Described = tuple[Shape, str]


def describe_weights(path: Path) -> dict[str, Described]:
    """Return the shape and type of every tensor in a weight file from its header."""
    if path.suffix != ".safetensors":
        state = _state_dict(path, read_torch(path, shapes_only=True), "meta")
        return {name: describe(tensor) for name, tensor in state.items()}
    with open_file(path) as (file, status):
        parts = read_header(path, file, status.st_size)
    return {name: (part.shape, part.dtype) for name, part in parts.items()}


def read_tensors(path: Path, described: Mapping[str, Described]) -> Iterator[tuple[str, Tensor]]:
    """Yield copies of a weight file's tensors in their stored types, one at a time.

    Args: described: tensors to read, from `describe_weights`.

    Raises: `CheckpointError` naming the file, also if it has changed since it was described.
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
    return CheckpointError(f"{path}: changed while being read")


def check_weights(path: Path, layout: Layout) -> dict[str, Described]:
    """Compare names, shapes and types of the stored tensors with a model's, and return them.

    Raises: `CheckpointError` naming the file.
    """
    tensors = describe_weights(path)
    for name, described in tensors.items():
        check_stored(path, name, described, layout.shapes)
    present = {layout.tied.get(name, name) for name in tensors}
    check_missing(path, [name for name in layout.stored if name not in present])
    check_memory(path, sum(map(math.prod, layout.stored.values())))
    return tensors


def check_missing(path: Path, missing: Sequence[str]) -> None:
    """Raise `CheckpointError` if any tensors are missing."""
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"{path}: tensor {missing[0]!r}{more} is missing")


def describe(tensor: Tensor) -> Described:
    """Return a tensor's shape, and its type name in safetensors files."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    return tuple(tensor.shape), names.get(tensor.dtype, str(tensor.dtype))


def check_type(path: Path, name: str, dtype: str) -> None:
    """Refuse a tensor that is not floating-point."""
    if dtype not in DTYPES:
        raise CheckpointError(
            f"{path}: tensor {name!r} is stored as {dtype}; expected float32, float16 and bfloat16"
        )


def check_stored(path: Path, name: str, stored: Described, expected: Mapping[str, Shape]) -> None:
    """Refuse a tensor of an unexpected name, shape or type."""
    shape, dtype = stored
    if name not in expected:
        raise CheckpointError(f"{path}: tensor {name!r} does not belong to this model")
    check_shape(path, name, shape, expected[name])
    check_type(path, name, dtype)


def check_shape(
    path: Path, name: str, shape: Sequence[int], expected: Sequence[int],
    origin: str = "config.json",
) -> None:  # fmt: skip
    """Refuse a tensor whose shape is not the one that `origin` requires."""
    if tuple(shape) != tuple(expected):
        raise CheckpointError(
            f"{path}: tensor {name!r} has shape {list(shape)}, "
            f"but {origin} requires {list(expected)}"
        )


def _state_dict(path: Path, content: object, device: str) -> dict[str, Tensor]:
    """Return a torch file's state dict, which must hold plain tensors by name."""
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        content = content["model"]
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and is_plain(tensor, device) for name, tensor in content.items()
    ):
        raise CheckpointError(f"{path}: not a state dict (plain tensors by name)")
    return dict(content)


def is_plain(value: object, device: str = "cpu") -> bool:
    """Return True for a dense tensor on the device."""
    return (
        isinstance(value, Tensor) and value.layout is torch.strided and value.device.type == device
    )


def read_weights(path: Path, layout: Layout) -> dict[str, Tensor]:
    """Return all tensors by stored name, in float32 on the CPU; refuse NaN and infinity."""
    state: dict[str, Tensor] = {}
    for name, stored_tensor in read_tensors(path, check_weights(path, layout)):
        tensor = in_memory(path, name, stored_tensor, own=True)
        stored = layout.tied.get(name, name)
        if stored in state and not torch.equal(state[stored], tensor):
            raise CheckpointError(
                f"{path}: tensors {name!r} and {stored!r} differ, but config.json ties them"
            )
        state[stored] = tensor
    return state


def check_memory(path: Path, numbers: int, size: int | None = None) -> None:
    """Refuse a file whose tensors claim many times more numbers than it can hold.

    Tensors of a torch file may repeat one number or overlap; one embedding may stand for three.

    Args:
        numbers: claimed total, tied tensors counted once.
        size: total bytes of several files.
    """
    size = check_file(path) if size is None else size
    if 2 * numbers > 3 * size + MAX_HEADER:
        raise CheckpointError(
            f"{path}: {size:,} bytes are too few for the {numbers:,} numbers that its tensors claim"
        )


def in_memory(path: Path, name: str, tensor: Tensor, *, own: bool = False) -> Tensor:
    """Return a contiguous float32 tensor; refuse NaN and infinity.

    Args: own: True if the caller owns the tensor, so that float32 need not be copied.
    """
    tensor = tensor.detach().to(torch.float32, copy=not own).contiguous()
    if not bool(torch.isfinite(tensor).all()):
        raise CheckpointError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return tensor
