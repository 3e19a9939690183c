"""Training, importing, toy training: killed or out of disk at random moments, nothing is torn.

Each trial is a copy of a process that has made its imports. A full disk is a limit of the largest
file. Folders that are replaced are killed at each step in transformer/checkpoint/soak_replaced.py.
"""

import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import transformer.models.importers.joeynmt  # noqa: F401 - a copy would take long to import it
from tests import forks
from tests.soaking import LONG, SEED, note
from tests.transformer.conftest import parallel_text
from tests.transformer.models.importers import foreign
from tests.transformer.training.runs import assert_same_bits, recipe, run
from transformer.__main__ import main
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.weights import describe_weights, read_tensors
from transformer.files.folders import clear_away
from transformer.models.importers.registry import FORMATS
from transformer.training.toys.files import KEPT, map_updates, read_maps
from transformer.training.toys.run import ToyRun
from transformer.training.toys.settings import ToySettings
from transformer.worker.job import Job
from ui.models import import_plan

_TOY = ToySettings(d_model=16, n_heads=2, n_layers=1, updates=30, warmup=4)

#: What a work may say when it has no room.
_FULL = ("No space left on device", "File too large", "are free on the server")


class Training:
    """`train --resume` in one folder until the run is finished."""

    writes = 400_000  # bytes of its files, about; a full disk has less

    def __init__(self, folder: Path) -> None:
        self.whole, self.out = folder / "whole", folder / "run"
        self.data = parallel_text(folder / "data")
        run(recipe(self.data, "snapshots = 4", epochs=3, save_every=4), self.whole)

    def do(self) -> int:
        options = ("--resume", "--quiet", "--device", "cpu")
        data, out = str(self.data), str(self.out)
        return main(["train", f"{data}/recipe.toml", "--data", data, "--out", out, *options])

    def check(self) -> None:
        """Fail if anything is incomplete; remove finished work."""
        for file in self.out.glob("*/*.safetensors"):
            assert len(list(read_tensors(file, describe_weights(file)))) > 10
        if (self.out / "recipe.json").exists():
            json.loads((self.out / "recipe.json").read_text())
        lines = _lines(self.out / "metrics.jsonl")
        if (self.out / "model.safetensors").exists():
            load_checkpoint(self.out)
            assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == [*range(1, 4)]
            assert_same_bits(self.whole, self.out)
            assert not _temporary(self.out)
            shutil.rmtree(self.out)
        elif (self.out / "state.pt").exists():
            torch.load(self.out / "state.pt", weights_only=True)


class Importing:
    writes = 200_000

    def __init__(self, folder: Path) -> None:
        make, shape, _ = foreign.MODELS["joeynmt"]
        make(folder / "joeynmt", shape)
        self.root = folder / "root"
        self.root.mkdir()
        os.environ["HEADLIGHT_CHECKPOINTS"] = os.pathsep.join([str(self.root), str(folder)])

    def do(self) -> int:
        job = import_plan.begin(import_plan.plan_folder(FORMATS["joeynmt"], "joeynmt", "it"))
        job.ended(600)
        print(job.error, file=sys.stderr)
        return 0 if job.phase == "done" else 2

    def check(self) -> None:
        clear_away([self.root])  # as the next server does
        assert not _temporary(self.root)
        if (made := self.root / "it").exists():
            load_checkpoint(made)
            assert (made / "README.md").read_text().startswith("# `it`")
            shutil.rmtree(made)


class ToyTraining:
    """A training job of the app, which keeps its model whole or not at all."""

    writes = 500_000

    def __init__(self, folder: Path) -> None:
        self.job, self.done = folder / "job", folder / "done"

    def do(self) -> int:
        try:
            ToyRun(self.job, [_TOY], Job()).run()
        except OSError as error:
            print(error, file=sys.stderr)
            return 2
        self.done.touch()
        return 0

    def check(self) -> None:
        lane = self.job / "0"
        _lines(lane / "metrics.jsonl")
        for update in map_updates(lane):
            assert set(read_maps(lane, update)) == {"encoder_self", "decoder_self", "cross"}
        assert (lane / KEPT).exists() or not self.done.exists()
        if (lane / KEPT).exists():
            load_checkpoint(lane / KEPT)
        shutil.rmtree(self.job, ignore_errors=True)
        self.done.unlink(missing_ok=True)


WORKS = {each.__name__: each for each in (Training, Importing, ToyTraining)}


def _lines(file: Path) -> list[dict[str, object]]:
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _temporary(folder: Path) -> list[Path]:
    return [*folder.rglob("*.new"), *folder.rglob("*.partial"), *folder.glob(".*")]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", ["kill", "disk"])
@pytest.mark.parametrize("name", WORKS)
def test_nothing_is_torn_and_the_next_start_goes_on(name: str, fault: str, tmp_path: Path) -> None:
    command = ["-m", "tests.soak_faults", name, fault, str(tmp_path), "100" if LONG else "6"]
    note(**json.loads(forks.run(command, {}, tmp_path / "log").splitlines()[-1]))


def suffer(name: str, fault: str, folder: Path, count: int) -> None:
    """Repeat work with and without a fault, check it after each, and print statistics."""
    rng, log, ended = random.Random(f"{SEED} {name}"), folder / "trials", 0
    torch.set_num_threads(1)
    work = WORKS[name](folder)

    def must(do: Callable[[], object], what: str) -> float:
        begun = time.monotonic()
        status, said = forks.forked(do, log)
        assert status == 0, f"{what}: status {status}\n{said}"
        return time.monotonic() - begun

    def without_room() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return work.do()

    seconds = must(work.do, "undisturbed")
    must(work.check, "an undisturbed check")
    for _ in range(count):
        moment, room = rng.uniform(0, 1.1 * seconds), rng.randrange(1, work.writes)
        if fault == "kill":
            status, said = forks.forked(work.do, log, moment)
            assert status in (0, -signal.SIGKILL), f"status {status}\n{said}"
            if status == 0:  # quicker than at first
                seconds = min(seconds, 0.9 * moment)
        else:
            status, said = forks.forked(without_room, log)
            assert status in (0, 2) and "Traceback" not in said, f"status {status}\n{said}"
            last = "".join(said.strip().splitlines()[-1:])
            assert not status or any(each in last for each in _FULL), said
            assert not status or name != "Training" or last.startswith("python -m transformer ")
        ended += status != 0
        must(work.check, f"after {moment:.3f} s, or with {room:,} bytes")
    must(work.do, "undisturbed again")
    must(work.check, "the last check")
    assert ended
    print(json.dumps({"work": name, "fault": fault, "trials": count, "ended": ended}))


if __name__ == "__main__":
    _, work, fault, folder, count = sys.argv
    suffer(work, fault, Path(folder), int(count))
