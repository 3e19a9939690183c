"""Checkpoints of models of one stack: the files of any checkpoint, with a config of its own.

config.json has the key "task", by which the catalogue knows them. As with any checkpoint, nothing
in the folder is trusted: weights are read as numbers, after their shapes were compared with the
config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.folder import (
    CONFIG,
    check_size,
    read_config_text,
    read_metrics,
    read_own_tokenizer,
    write_parts,
)
from transformer.checkpoint.folder import name_of as checkpoint_name
from transformer.checkpoint.outline import Undrawn
from transformer.checkpoint.snapshots import check_moment, read_snapshot, split_path
from transformer.checkpoint.weights import (
    SAFETENSORS,
    check_stored,
    describe_weights,
    in_memory,
    read_tensors,
)
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.files.folders import replaced_folder
from transformer.files.safetensors_file import MAX_HEADER
from transformer.machinery.stored_positions import make_positions
from transformer.one_stack.config import StackConfig
from transformer.one_stack.model import OneStack
from transformer.text.layout import TOKENIZER_FILES
from transformer.text.tokenizer import Tokenizer

#: What stands for a hidden token in a text.
MASK = "[MASK]"

#: The tied matrix, and the name under which it is stored.
TIED = {"generator.weight": "embedding.weight"}


def mask_id(tokenizer: Tokenizer) -> int:
    """Return the id of `MASK`. Raises `ConfigError` for a tokenizer that has none."""
    try:
        return tokenizer.pieces.index(f"▁{MASK}")
    except ValueError:
        raise ConfigError(f"the tokenizer has no piece {MASK}") from None


@dataclass(frozen=True, eq=False)
class StackCheckpoint:
    """A checkpoint in memory: the model is in evaluation mode, float32, on the CPU.

    `path` is the folder, or that of a snapshot: `PATH@UPDATES`.
    """

    path: Path
    model: OneStack
    tokenizer: Tokenizer
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder's name, with the updates of a snapshot."""
        return checkpoint_name(self.path)


def save_stack(
    path: str | Path,
    model: OneStack,
    tokenizer: Tokenizer,
    *,
    metrics: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    card: str | None = None,
) -> Path:
    """Write a checkpoint folder atomically; arguments as of `save_checkpoint`."""
    path = Path(path)
    state = {name: each for name, each in model.state_dict().items() if name not in TIED}
    with replaced_folder(path, dropped=TOKENIZER_FILES) as new:
        write_parts(
            new, model.config.to_json(), state, tokenizer, metrics=metrics, dtype=dtype, card=card
        )
    return path


def load_stack(path: str | Path) -> StackCheckpoint:
    """Read a checkpoint folder, or one of its snapshots as `PATH@UPDATES`.

    Raises: `CheckpointError` naming the file and what is wrong.
    """
    folder, updates = split_path(path)
    config, tokenizer = _config_and_tokenizer(folder)
    with torch.device("meta"), Undrawn():
        model = OneStack(config)
    state = (
        read_stack_weights(folder, config)
        if updates is None
        else read_snapshot(folder, stack_shapes(config), updates)
    )
    model.load_state_dict(state | {name: state[kept] for name, kept in TIED.items()}, assign=True)
    model.generator.weight = model.embedding.weight
    if config.blocks.positions == "sinusoidal":  # not stored, so still on the meta device
        model.positions = make_positions(config.blocks)
    return StackCheckpoint(
        Path(path), model.eval().requires_grad_(False), tokenizer, read_metrics(folder)
    )


def read_stack_config(folder: Path) -> StackConfig:
    """Read and check config.json. Raises `CheckpointError` naming it."""
    try:
        config = StackConfig.from_json(read_config_text(folder))
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    check_size(folder / CONFIG, config.blocks)
    return config


def check_stack(path: Path) -> StackConfig:
    """Check config, tokenizer and the header of the weights without reading numbers.

    Raises: `CheckpointError` like `load_stack`.
    """
    folder, updates = split_path(path)
    config, _ = _config_and_tokenizer(folder)
    _described(folder, config)
    if updates is not None:
        check_moment(folder, updates)
    return config


def _config_and_tokenizer(folder: Path) -> tuple[StackConfig, Tokenizer]:
    config = read_stack_config(folder)
    tokenizer = read_own_tokenizer(folder, config.blocks)
    if config.task == "fill":
        try:
            mask_id(tokenizer)
        except ConfigError as error:
            raise CheckpointError(f"{folder}: {error}") from None
    return config, tokenizer


def stack_shapes(config: StackConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that a weight file holds."""
    with torch.device("meta"), Undrawn():
        state = OneStack(config).state_dict()
    return {name: tuple(each.shape) for name, each in state.items() if name not in TIED}


def _described(folder: Path, config: StackConfig) -> dict[str, tuple[tuple[int, ...], str]]:
    path, expected = folder / SAFETENSORS, stack_shapes(config)
    described = describe_weights(path)
    for name, found in described.items():
        check_stored(path, name, found, expected)
    if missing := [name for name in expected if name not in described]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"{path}: tensor {missing[0]!r}{more} is missing")
    size = path.stat().st_size
    if 2 * config.n_parameters > 3 * size + MAX_HEADER:
        raise CheckpointError(
            f"{path}: {size:,} bytes are too few for the {config.n_parameters:,} numbers that "
            "its tensors claim"
        )
    return described


def read_stack_weights(folder: Path, config: StackConfig) -> dict[str, Tensor]:
    """Read the weights of a checkpoint for a model of that config.

    Raises: `CheckpointError` naming what does not fit.
    """
    path = folder / SAFETENSORS
    described = _described(folder, config)
    return {
        name: in_memory(path, name, tensor, own=True)
        for name, tensor in read_tensors(path, described)
    }
