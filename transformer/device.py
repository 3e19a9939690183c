"""Devices to run on: "auto", "cpu" and "cuda"."""

from __future__ import annotations

import torch

from transformer.errors import InputError


def available_devices() -> tuple[str, ...]:
    """Return the devices of this machine, best first: "cuda" if there is a GPU, then "cpu"."""
    return ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)


#: A device by its name, or PyTorch's own.
Device = str | torch.device


def resolve_device(device: Device) -> torch.device:
    """Return the device called "auto", "cpu" or "cuda". Raises `InputError` if it is missing."""
    present = available_devices()
    name = str(device).removesuffix(":0")  # the first, which is the only one used
    if name == "auto":
        return torch.device(present[0])
    if name not in present:
        raise InputError(f"device {name!r} is not here; there is: auto, {', '.join(present)}")
    return torch.device(name)
