"""Whole files on a real cluster of two workers, one of which is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from tests.forks import ROOT
from tests.tiny_models import SENTENCES
from tests.transformer.conftest import Command

RUN = {
    "translate": "",
    "evaluate": "--src {src} --ref {tgt} --output {out}",
    "align": "--src {src} --tgt {tgt} --pharaoh {out} --subwords {out}.pieces --measure norm",
    "study": "--corpus {src} --examples 20 --out {out}",
}  # fmt: skip
LINES = 64 * 5


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.scheduler = self.start("scheduler", "--port", "0", "--scheduler-file", self.file)
        self.client: Any = Client(scheduler_file=str(self.file), timeout=60)  # type: ignore[no-untyped-call]
        self.workers = [self.start("worker", "--no-nanny", "--nthreads", 1, "--name", name,
                                   "--scheduler-file", self.file) for name in "ab"]  # fmt: skip
        self.client.wait_for_workers(2, timeout=120)

    def start(self, kind: str, *options: object) -> subprocess.Popen[bytes]:
        module = f"distributed.cli.dask_{kind}"
        line = [sys.executable, "-m", module, "--no-dashboard", *map(str, options)]
        return subprocess.Popen(line, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def kill_one_at_work(self, process: subprocess.Popen[bytes]) -> None:
        """Kill worker a while it has parts of a command to make."""
        names = {about["name"]: address for address, about in
                 self.client.scheduler_info(n_workers=-1)["workers"].items()}  # fmt: skip
        while process.poll() is None and not self.client.processing()[names["a"]]:
            time.sleep(0.05)
        self.workers[0].send_signal(signal.SIGKILL)
        assert self.workers[0].wait() == -signal.SIGKILL

    def end(self) -> None:
        self.client.close()
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("command", RUN)
def test_a_lost_worker_changes_no_byte(
    cluster: Cluster, tiny_checkpoint: Path, tmp_path: Path, command: str
) -> None:
    lines = [f"{SENTENCES[at % len(SENTENCES)]} {'a dog ' * (at % 7)}" for at in range(LINES)]
    texts = {name: tmp_path / name for name in ("src", "tgt")}
    for path in texts.values():
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    results, address = [], cluster.client.scheduler.address
    for turn, dask in enumerate(([], ["--dask", address])):
        folder = tmp_path / f"out{turn}"
        folder.mkdir()
        options = RUN[command].format(**texts, out=folder / "file").split()
        place = [str(tiny_checkpoint)]
        place = place if command == "study" else ["--checkpoint", *place]
        where = [] if command == "study" else ["--device", "cpu"]
        with texts["src"].open("rb") as stdin:
            process = subprocess.Popen(
                [sys.executable, "-m", "transformer", command, *place, *options, *where, *dask],
                cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            if dask:
                cluster.kill_one_at_work(process)
            out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err.decode()
        results.append((out if command == "translate" else b"", files(folder)))
    assert results[0] == results[1]
    assert results[0][0].count(b"\n") == LINES or len(results[0][1]) > 0


def test_without_a_scheduler_the_error_says_so(tiny_checkpoint: Path, command: Command) -> None:
    line = ["translate", "--checkpoint", tiny_checkpoint, "--dask", "tcp://127.0.0.1:9", "A dog."]
    assert "no scheduler answers" in command(*line).refused
