"""Running PyTorch in training: processes of torchrun, compiling, repeatable sums, bfloat16."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class World:
    """This process in a distributed run; the only one without torchrun."""

    rank: int = 0  # from 0 to size - 1 over all machines
    size: int = 1  # number of processes
    local_rank: int = 0  # its number on this machine, and the number of its GPU

    @classmethod
    def join(cls, device: str) -> World:
        """Join the group described by torchrun's environment variables, if any."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        if device == "cuda":
            torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        return cls(dist.get_rank(), size, local_rank)

    @property
    def leads(self) -> bool:
        """True for the process that writes files (rank 0)."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait for all processes (barrier)."""
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        """Leave the group."""
        if self.size > 1:
            dist.destroy_process_group()

    def add(self, numbers: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return the sum over all processes, on the CPU."""
        if self.size == 1:
            return numbers
        total = numbers.to(device)
        dist.all_reduce(total)
        return total.cpu()


def compiled(
    objective: nn.Module, try_out: Callable[[nn.Module], None], *, show_progress: bool
) -> nn.Module:
    """Return the compiled objective; if that fails, log why and return the objective itself.

    Args: try_out: runs the objective forward and backward once, which is what compiles it.
    """
    made = cast(nn.Module, torch.compile(objective, dynamic=True))
    if show_progress:
        log.info("compiling for this machine, a minute or two")
    try:
        try_out(made)
    except Exception as error:  # noqa: BLE001 - compilers and their drivers fail in any way
        log.warning("not compiled, so updates are slower: %s", _reason(error))
        return objective
    return made


def _reason(error: Exception) -> str:
    headers = torch.__path__[0]
    if any(character.isspace() for character in headers):  # PyTorch does not quote include paths
        return f"PyTorch cannot compile from a folder with a space in its name: {headers}"
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextlib.contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Context in which sums have a fixed order, so that results are bitwise reproducible.

    Otherwise gradients of embeddings are summed in the order in which threads finish: on a GPU,
    and on the CPU in compiled code.
    """
    if device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    strict = torch.are_deterministic_algorithms_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # would only take time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict)
        memory.fill_uninitialized_memory = filled


def wants_bfloat16(precision: str, device: str) -> bool:
    """Return whether matrix products use bfloat16: on request, or with "auto" if it is faster."""
    if precision != "auto":
        return precision == "bfloat16"
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and " avx512_bf16 " in flags


def hardware(device: torch.device) -> str:
    """Name the hardware, for the model card."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    count = torch.get_num_threads()
    return f"{count} CPU thread{'s' if count > 1 else ''}, {platform.machine()}"
