"""Torch files that hold more than weights: settings beside them, and a training run's state.

They are opened with `weights_only=True`, which builds numbers, texts, lists and dictionaries and
refuses everything else. One more kind of value is let through, because such files are full of it:
`argparse.Namespace`. It only holds what it is given: making one runs no code of the file's, and
what it is filled with becomes its attributes.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.checkpoint.weights import is_plain
from transformer.errors import CheckpointError
from transformer.files.pickles import ALLOWED
from transformer.files.torch_file import read_torch

#: What its pickles may name beside what state dicts are made of, see `transformer.files.pickles`.
_NAMES = re.compile(ALLOWED.pattern + r"|argparse Namespace|(__builtin__|builtins) set")


def read_content(path: Path, convert: str) -> dict[str, Any]:
    """Return all that a torch file holds.

    Args:
        convert: how to make a file of weights and plain settings out of one that is refused.

    Raises: `CheckpointError`, one line that names the file.
    """
    content = read_torch(
        path, allowed=_NAMES, safe_globals=[argparse.Namespace], hint=f"; {convert}"
    )
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not a checkpoint (a dictionary)")
    return content


def tensors_in(path: Path, content: dict[str, Any], key: str) -> dict[str, Tensor]:
    """The state dict under `key`. Raises `CheckpointError` unless it is plain tensors by name."""
    state = content.get(key)
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and is_plain(tensor) for name, tensor in state.items()
    ):
        raise CheckpointError(f"{path}: {key!r} is not a state dict (plain tensors by name)")
    return state


def plain(value: object) -> dict[str, Any]:
    """A namespace or a dictionary as a dictionary, {} for anything else."""
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    return (
        {key: each for key, each in value.items() if isinstance(key, str)}
        if isinstance(value, dict)
        else {}
    )
