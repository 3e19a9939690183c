"""Torch files that hold more than weights: settings beside them, and a training run's state.

They are opened with `weights_only=True`, which builds numbers, texts, lists and dictionaries and
refuses everything else. One more kind of value is let through, because such files are full of it:
`argparse.Namespace`. It only holds what it is given: making one runs no code of the file's, and
what it is filled with becomes its attributes.
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.errors import CheckpointError
from transformer.files.pickles import ALLOWED, check_pickles
from transformer.files.safe import check_file

#: What its pickles may name beside what state dicts are made of, see `transformer.files.pickles`.
_NAMES = re.compile(ALLOWED.pattern + r"|argparse Namespace|(__builtin__|builtins) set")


def read_content(path: Path, convert: str) -> dict[str, Any]:
    """All that a torch file holds, its tensors mapped from disk where its format allows that.

    Args:
        convert: how to make a file of weights and plain settings out of one that is refused.

    Raises: `CheckpointError`, one line that names the file.
    """
    check_file(path)
    check_pickles(path, _NAMES, f"; {convert}")
    try:
        # This counts for all threads meanwhile, and does no harm to what they read either.
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that torch did not write
            content = torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
            )
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" ({found[1]})" if found else ""
        raise CheckpointError(
            f"{path}: holds more than weights{what}, or is damaged; it is not loaded, since it "
            f"could run code; {convert}"
        ) from None
    except Exception as error:  # noqa: BLE001 - the network and the hub can fail anyhow
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: not a whole torch file ({reason})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not a checkpoint (a dictionary)")
    return content


def tensors_in(path: Path, content: dict[str, Any], key: str) -> dict[str, Tensor]:
    """The state dict under `key`. Raises `CheckpointError` unless it is plain tensors by name."""
    state = content.get(key)
    if not isinstance(state, dict) or not all(
        isinstance(name, str)
        and isinstance(tensor, Tensor)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        for name, tensor in state.items()
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
