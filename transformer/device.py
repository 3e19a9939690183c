"""Devices: "auto", "cpu" and "cuda"."""

import torch

from transformer.types import InputError


def available_devices() -> tuple[str, ...]:
    """Return this machine's devices, best first: "cuda" if there is a GPU, then "cpu"."""
    return ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)


#: A device name, or PyTorch's device.
Device = str | torch.device


def resolve_device(device: Device) -> torch.device:
    """Return the device "auto", "cpu" or "cuda". Raises `InputError` if it is missing."""
    present = available_devices()
    name = str(device).removesuffix(":0")  # only the first device is used
    if name == "auto":
        return torch.device(present[0])
    if name not in present:
        raise InputError(f"device {name!r} is not available; choose auto, {', '.join(present)}")
    return torch.device(name)
