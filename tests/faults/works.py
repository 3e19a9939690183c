"""Pieces of work that a fault may end: preparation, work, and the check of its leftovers.

Each works in a folder of its own, `place`, on what was prepared beside it. `check` runs after
every fault and fails if anything there is torn.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import ClassVar

import torch

from tests.transformer.conftest import parallel_text
from tests.transformer.importers import foreign
from tests.transformer.training.runs import assert_same_bits, recipe, run
from transformer.__main__ import main
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.weights import describe_weights, read_tensors
from transformer.files.leftovers import clear_away
from transformer.importers.registry import FORMATS
from transformer.toys.files import KEPT, map_updates, read_maps
from transformer.toys.run import ToyRun
from transformer.toys.settings import ToySettings
from transformer.worker.job import Job

_TOY = ToySettings(d_model=16, n_heads=2, n_layers=1, updates=30, warmup=4)
_DECODING = ("--device", "cpu", "--beam", "1", "--alpha", "0.6")


def command(*arguments: object) -> int:
    return main([str(each) for each in arguments])


class Work:
    """A piece of work; the methods run in processes of their own.

    Attributes:
        command: whether it is a command, which reports a fault in one line with status 2.
        writes: bytes that it writes, about; a full disk has less.
    """

    name: ClassVar[str]
    command: ClassVar[bool] = True
    writes: ClassVar[int] = 200_000

    def __init__(self, inputs: Path) -> None:
        """Args: inputs: folder in which `prepare` lays what the work needs."""
        self.inputs = inputs

    def prepare(self) -> None:
        """Make what the work needs, once."""

    def begin(self, place: Path, number: int) -> None:
        """Lay in `place` what stands there before the work; `number` counts the trials."""
        shutil.rmtree(place / "it", ignore_errors=True)

    def run(self, place: Path, number: int) -> int:
        """Do the work. Returns: an exit status."""
        raise NotImplementedError

    def check(self, place: Path) -> str:
        """Fail if anything is torn. Returns: a word for what stands there."""
        if not (place / "it").exists():
            return "nothing"
        load_checkpoint(place / "it")
        return "whole"


class Training(Work):
    """`train --resume` in one folder, until the run is finished."""

    name = "train"
    writes = 400_000

    def prepare(self) -> None:
        data = parallel_text(self.inputs / "data")
        run(recipe(data, "snapshots = 4", epochs=3, save_every=4), self.inputs / "whole")

    def begin(self, place: Path, number: int) -> None:
        if (place / "run" / "model.safetensors").exists():
            shutil.rmtree(place / "run")

    def run(self, place: Path, number: int) -> int:
        data = self.inputs / "data"
        return command(
            "train", data / "recipe.toml", "--data", data, "--out", place / "run", "--resume",
            "--quiet", "--device", "cpu",
        )  # fmt: skip

    def check(self, place: Path) -> str:
        folder = place / "run"
        for file in folder.glob("*/*.safetensors"):
            assert len(list(read_tensors(file, describe_weights(file)))) > 10
        if (folder / "recipe.json").exists():
            json.loads((folder / "recipe.json").read_text())
        lines = _lines(folder / "metrics.jsonl")
        if (folder / "model.safetensors").exists():
            load_checkpoint(folder)
            assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == [*range(1, 4)]
            assert_same_bits(self.inputs / "whole", folder)
            assert not _temporary(folder)
            return "finished"
        if (folder / "state.pt").exists():
            torch.load(folder / "state.pt", weights_only=True)
            return "resumable"
        return "nothing"


class Publishing(Work):
    """`publish` over nothing, or over what an earlier trial published."""

    name = "publish"
    writes = 80_000

    def prepare(self) -> None:
        data = parallel_text(self.inputs / "data")
        run(recipe(data), self.inputs / "run")

    def begin(self, place: Path, number: int) -> None:
        if number % 2:
            super().begin(place, number)

    def run(self, place: Path, number: int) -> int:
        return command(
            "publish", self.inputs / "run", "--data", self.inputs / "data", "--out", place / "it",
            *_DECODING, "--note", f"Of trial {number}.",
        )  # fmt: skip

    def check(self, place: Path) -> str:
        found = super().check(place)
        if found == "whole":
            (note,) = json.loads((place / "it" / "metrics.json").read_text())["notes"]
            assert note in (place / "it" / "README.md").read_text()
        return found


class Importing(Work):
    """An import of two formats in turn on the Models page, in the checkpoint root of a server."""

    name = "import"
    command = False
    kinds = ("joeynmt", "fairseq")

    def prepare(self) -> None:
        for kind in self.kinds:
            make, shape, _ = foreign.MODELS[kind]
            make(self.inputs / kind, shape)

    def run(self, place: Path, number: int) -> int:
        from ui.models import import_plan
        from ui.models.import_plan import plan_folder

        kind = self.kinds[number % 2]
        os.environ["HEADLIGHT_CHECKPOINTS"] = os.pathsep.join([str(place), str(self.inputs)])
        job = import_plan.begin(plan_folder(FORMATS[kind], kind, "it"))
        job.ended(600)
        print(job.error, file=sys.stderr)
        return 0 if job.phase == "done" else 2

    def check(self, place: Path) -> str:
        clear_away([place])  # as the next server does
        assert not _temporary(place)
        found = super().check(place)
        card = place / "it" / "README.md"
        assert found == "nothing" or card.read_text().startswith("# `it`")
        return found


class ToyTraining(Work):
    """A training job of the app: its files stay whole, and its model is kept whole or not."""

    name = "toy training"
    command = False
    writes = 500_000

    def begin(self, place: Path, number: int) -> None:
        shutil.rmtree(place / "job", ignore_errors=True)
        (place / "done").unlink(missing_ok=True)

    def run(self, place: Path, number: int) -> int:
        try:
            done = ToyRun(place / "job", [_TOY], Job()).run()
        except OSError as error:
            print(error, file=sys.stderr)
            return 2
        (place / "done").touch()
        return 0 if done else 2

    def check(self, place: Path) -> str:
        lane = place / "job" / "0"
        _lines(lane / "metrics.jsonl")
        for update in map_updates(lane):
            assert set(read_maps(lane, update)) == {"encoder_self", "decoder_self", "cross"}
        if (lane / KEPT).exists():
            load_checkpoint(lane / KEPT)
            return "kept"
        assert not (place / "done").exists()
        return "nothing kept"


WORKS: dict[str, type[Work]] = {
    each.name: each for each in (Training, Publishing, Importing, ToyTraining)
}


def _lines(file: Path) -> list[dict[str, object]]:
    """Return the lines of a log, whose last may be cut."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _temporary(folder: Path) -> list[str]:
    found = {each.name for each in folder.rglob("*") if each.name.endswith((".new", ".partial"))}
    return sorted(found | {each.name for each in folder.iterdir() if each.name.startswith(".")})
