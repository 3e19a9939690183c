"""Faults in forked processes.

    python -m tests.faults.trials kill|disk FOLDER TRIALS SEED [WORK ...]

The imports are made once; the work of every trial, and the check after it, are copies of this
process. Prints a line of JSON for each work.

A full disk is a limit of the largest file that the work may write.
"""

import importlib
import json
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from tests.faults.works import WORKS, Work
from tests.forks import forked

#: What a work may say when it has no room.
_FULL = ("No space left on device", "File too large", "are free on the server")


class Trials:
    def __init__(self, work: Work, folder: Path, rng: random.Random) -> None:
        self.work, self.rng, self.log = work, rng, folder / "log.txt"
        self.place = folder / "place"
        self.place.mkdir()
        self.found: Counter[str] = Counter()
        self.kept = folder / "words.txt"

    def must(self, do: Callable[[], object], what: str) -> str:
        """Call `do` in a copy of this process, which has to succeed."""
        status, said = forked(do, self.log)
        assert status == 0, f"{self.work.name}, {what}: status {status}\n{said}"
        return said

    def check(self, what: str) -> str:
        """Check the place in a copy of this process; return the word for what stands there."""
        self.must(lambda: self.kept.write_text(self.work.check(self.place)) and 0, f"after {what}")
        return self.kept.read_text()

    def undisturbed(self, number: int) -> float:
        """Do the work once without a fault; return the seconds that it took."""
        self.must(lambda: self.work.begin(self.place, number), "beginning")
        begun = time.monotonic()
        self.must(lambda: self.work.run(self.place, number), "undisturbed")
        took = time.monotonic() - begun
        self.check("an undisturbed run")
        return took

    def kill(self, count: int) -> dict[str, object]:
        seconds, killed = self.undisturbed(0), 0
        for number in range(1, count + 1):
            self.must(partial(self.work.begin, self.place, number), "beginning")
            moment = self.rng.uniform(0, 1.1 * seconds)
            work = partial(self.work.run, self.place, number)
            status, said = forked(work, self.log, moment)
            assert status in (0, -signal.SIGKILL), f"status {status}\n{said}"
            killed += status != 0
            if status == 0:  # quicker than at first
                seconds = min(seconds, 0.9 * moment)
            self.found[self.check(f"a kill after {moment:.3f} s")] += 1
        self.undisturbed(count + 1)
        return {"trials": count, "killed": killed, "found": dict(self.found)}

    def fill(self, count: int) -> dict[str, object]:
        self.undisturbed(0)
        needed = self.work.writes
        failed = 0
        for number in range(1, count + 1):
            self.must(partial(self.work.begin, self.place, number), "beginning")
            room = self.rng.randrange(1, needed)
            status, said = forked(partial(self._with_room, room, number), self.log)
            lines = said.strip().splitlines()
            assert "Traceback" not in said, said
            assert status in (0, 2), f"status {status} with {room:,} bytes\n{said}"
            if status:
                failed += 1
                assert lines and any(each in lines[-1] for each in _FULL), said
                if self.work.command:
                    assert lines[-1].startswith("python -m transformer "), said
            self.found[self.check(f"a disk with {room:,} bytes")] += 1
        self.undisturbed(count + 1)
        return {"trials": count, "full": failed, "found": dict(self.found)}

    def _with_room(self, room: int, number: int) -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return self.work.run(self.place, number)


#: What commands import when they run.
_LATE = (
    "transformer.evaluation.publish", "transformer.importers.fairseq",
    "transformer.importers.joeynmt", "ui.models.import_plan",
)  # fmt: skip


def main() -> None:
    fault, where, count, seed, *names = sys.argv[1:]
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports what takes a second
    for module in _LATE:
        importlib.import_module(module)
    for name in names or WORKS:
        folder = Path(where) / name
        (folder / "inputs").mkdir(parents=True)
        trials = Trials(WORKS[name](folder / "inputs"), folder, random.Random(f"{seed} {name}"))
        trials.must(trials.work.prepare, "preparing")
        found = trials.kill(int(count)) if fault == "kill" else trials.fill(int(count))
        print(json.dumps({"work": name, "fault": fault, "seed": int(seed), **found}), flush=True)


if __name__ == "__main__":
    main()
