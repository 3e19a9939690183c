"""Devices to run on: "auto", "cpu" and "cuda"."""

from __future__ import annotations

import torch

from transformer.errors import InputError


def available_devices() -> tuple[str, ...]:
    """Return the devices of this machine, best first: "cuda" if there is a GPU, then "cpu"."""
    return ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)


def resolve_device(device: str) -> torch.device:
    """Return the device called "auto", "cpu" or "cuda". Raises `InputError` if it is missing."""
    present = available_devices()
    if device == "auto":
        return torch.device(present[0])
    if device not in present:
        raise InputError(f"device {device!r} is not here; there is: auto, {', '.join(present)}")
    return torch.device(device)
