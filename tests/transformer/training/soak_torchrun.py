"""Training in two processes that a real torchrun starts."""

from __future__ import annotations

from pathlib import Path

from tests.transformer.training.test_run import check_two_processes, free_port
from tests.transformer.training.test_run import uneven as uneven


def test_torchrun_matches_one_process(uneven: Path, tmp_path: Path) -> None:
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", free_port(), "-m", "transformer"]
    check_two_processes(uneven, tmp_path, command)
