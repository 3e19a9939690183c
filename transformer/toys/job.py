"""A training job: one or two toy models, an update of each in turn, steered by its folder.

    python -m transformer.toys.job FOLDER PARENT

The job runs whether anybody watches or not, and ends when the process PARENT, which started it,
ends. It is told the number, since that process may have ended before this one can ask for it.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from transformer.config import ConfigError
from transformer.toys.files import KEPT, JobFolder, Phase, Status, write_maps, write_probe
from transformer.toys.lane import Lane
from transformer.training.trainer import TrainingError

log = logging.getLogger(__name__)

#: Updates between lines of metrics.jsonl, and between measures of accuracy with their maps.
LOG_EVERY, MEASURE_EVERY = 5, 25
#: Seconds after which a paused job ends and makes room for the next.
MOST_PAUSE = 300.0
#: Seconds between looks at control.json while paused.
_LOOK = 0.05

#: Exit status of a job that could not write its files, not even why.
DISK_FULL = 28


class Job:
    """The models of a folder in training."""

    def __init__(
        self,
        folder: JobFolder,
        wait: Callable[[], bool],
        attended: Callable[[], bool] = lambda: True,
    ) -> None:
        """Open a folder.

        Args:
            wait: called repeatedly while paused; False ends the job.
            attended: asked before each update; False ends the job.
        """
        self.folder, self.wait, self.attended = folder, wait, attended
        self.lanes = [
            Lane(settings, folder.lane(index)) for index, settings in enumerate(folder.settings)
        ]
        self.factor = 1.0
        self.updates = max(lane.settings.updates for lane in self.lanes)
        self.update = 0
        for lane in self.lanes:
            write_probe(lane.path, *lane.labels())
            write_maps(lane.path, 0, lane.maps())

    def run(self) -> Phase:
        """Train to the end, or until asked to stop; leave each model as a checkpoint."""
        end: Phase = "done"
        self._tell("running")
        while self.update < self.updates:
            if not self._may_go_on() or not self.attended():
                end = "stopped"
                break
            self._step()
        for lane in self.lanes:
            accuracy = lane.accuracy(None)
            self._log(lane, {"accuracy": accuracy})
            write_maps(lane.path, self.update, lane.maps())
            if lane.settings.keepable and self.update:
                lane.save(lane.path / KEPT, accuracy)
        self._tell(end)
        return end

    def _may_go_on(self) -> bool:
        """Wait while paused. Returns whether to make an update."""
        paused = False
        while True:
            asked = self.folder.asked()
            if asked.wish == "stop":
                return False
            if asked.wish == "run" or self.update < asked.until:
                if paused:
                    self._tell("running")
                self.factor = asked.factor
                return True
            if not paused:
                paused = True
                self._measure()
                self._tell("paused")
            if not self.wait():
                return False

    def _step(self) -> None:
        made = [lane.step(self.factor) for lane in self.lanes]
        self.update += 1
        for lane, (loss, rate) in zip(self.lanes, made, strict=True):
            if self.update % LOG_EVERY == 0 or self.update == 1:
                self._log(lane, {"loss": loss, "lr": rate})
        if self.update % MEASURE_EVERY == 0:
            self._measure()
        if self.update % LOG_EVERY == 0:
            self._tell("running")

    def _measure(self) -> None:
        for lane in self.lanes:
            self._log(lane, {"accuracy": lane.accuracy()})
            write_maps(lane.path, self.update, lane.maps())

    def _log(self, lane: Lane, values: dict[str, float]) -> None:
        lane.progress.seconds = time.process_time()
        lane.folder.log("update", lane.progress, values)

    def _tell(self, phase: Phase) -> None:
        self.folder.tell(Status(phase, self.update))


def run_job(
    path: Path, wait: Callable[[], bool], attended: Callable[[], bool] = lambda: True
) -> Status:
    """Run the job of a folder; a failure becomes one line in its status."""
    folder, job = JobFolder(path), None
    try:
        job = Job(folder, wait, attended)
        job.run()
    except (TrainingError, ConfigError, OSError) as error:
        log.warning("%s", error)
        reason = error.strerror if isinstance(error, OSError) else None
        update = job.update if job else 0
        failed = Status("failed", update, (reason or str(error)).splitlines()[0])
        try:
            folder.tell(failed)
        except OSError:  # no room for the reason either
            return failed
    return folder.status()


def _patience(parent: int) -> Callable[[], bool]:
    """Return a wait that ends after `MOST_PAUSE` seconds or with the parent process."""
    began = [0.0, 0.0]

    def wait() -> bool:
        now = time.monotonic()
        if now - began[1] > 20 * _LOOK:  # a new pause starts
            began[0] = now
        began[1] = now
        time.sleep(_LOOK)
        return os.getppid() == parent and now - began[0] < MOST_PAUSE

    return wait


def main() -> None:
    """Run the job that the command line names."""
    import torch

    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    parent = int(sys.argv[2])
    status = run_job(Path(sys.argv[1]), _patience(parent), lambda: os.getppid() == parent)
    if status.error == os.strerror(errno.ENOSPC):
        sys.exit(DISK_FULL)


if __name__ == "__main__":
    main()
