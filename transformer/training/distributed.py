"""PyTorch in training: processes of torchrun, compilation, reproducible sums, bfloat16."""

import contextlib
import logging
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class World:
    """This process in a distributed run, or the only process without torchrun."""

    rank: int = 0  # from 0 to size - 1, over all machines
    size: int = 1  # number of processes
    local_rank: int = 0  # number of this process and its GPU on this machine

    @classmethod
    def join(cls, device: str) -> Self:
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
        """Wait for all processes."""
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
    """Compile the objective; if that fails, log the reason and return the objective itself.

    Args: try_out: runs the objective forward and backward once, which triggers compilation.
    """
    result = cast(nn.Module, torch.compile(objective, dynamic=True))
    if show_progress:
        log.info("compiling for this machine, which takes a minute or two")
    try:
        try_out(result)
    except Exception as error:  # noqa: BLE001 - compilers and their drivers fail in any way
        headers = torch.__path__[0]
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        if any(map(str.isspace, headers)):  # PyTorch does not quote include paths
            reason = f"PyTorch cannot compile from a folder with a space in its name: {headers}"
        log.warning("not compiled, so updates are slower: %s", reason)
        return objective
    return result


@contextlib.contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Fix the order of sums within, so that results are bitwise reproducible.

    Otherwise gradients of embeddings are summed in the order in which threads finish, on a GPU and,
    in compiled code, on the CPU.
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
    """Return True to multiply matrices in bfloat16: on request or, for "auto", if it is faster."""
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
