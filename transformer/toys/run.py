"""A toy run: one or two models, an update of each in turn, steered through its job."""

from __future__ import annotations

import os
import time
from pathlib import Path

from transformer.toys.files import KEPT, Control, write_maps, write_probe
from transformer.toys.lane import Lane
from transformer.toys.settings import ToySettings
from transformer.worker.job import Job

#: Updates between lines of metrics.jsonl, and between measures of accuracy with their maps.
LOG_EVERY, MEASURE_EVERY = 5, 25

#: Seconds after which a paused run ends and makes room for the next.
MOST_PAUSE = 300.0

#: Seconds between two checks of a paused run.
_CHECK = 0.05


class ToyRun:
    """Models in training, each in a numbered folder."""

    def __init__(self, path: Path, settings: list[ToySettings], job: Job[bool]) -> None:
        """Build the models. Args: job: receives progress in updates; its request is a `Control`."""
        self.job = job
        self.lanes = [Lane(each, path / str(index)) for index, each in enumerate(settings)]
        self.updates = max(each.updates for each in settings)
        self.update, self.factor = 0, 1.0
        for lane in self.lanes:
            write_probe(lane.path, *lane.labels())
            write_maps(lane.path, 0, lane.maps())

    def run(self) -> bool:
        """Train to the end, or until asked to stop, and save each model as a checkpoint.

        Returns: whether the end was reached.

        Raises: `TrainingError` if a loss is not finite, `OSError` if the disk is full.
        """
        while self.update < self.updates and self._goes_on():
            self._step()
        for lane in self.lanes:
            accuracy = lane.accuracy(None)
            self._log(lane, {"accuracy": accuracy})
            write_maps(lane.path, self.update, lane.maps())
            if lane.settings.keepable and self.update:
                lane.save(lane.path / KEPT, accuracy)
        return self.update == self.updates

    def _goes_on(self) -> bool:
        """Wait while paused; return whether to make another update."""
        since = time.monotonic()
        paused = False
        while True:
            self.job(self.update, self.updates)
            control = self.job.request or Control()
            if control.wish == "stop":
                return False
            if control.wish == "run" or self.update < control.until:
                self.factor = control.factor
                return True
            if not paused:
                paused = True
                self._measure()
            if time.monotonic() - since > MOST_PAUSE:
                return False
            time.sleep(_CHECK)

    def _step(self) -> None:
        made = [lane.step(self.factor) for lane in self.lanes]
        self.update += 1
        for lane, (loss, rate) in zip(self.lanes, made, strict=True):
            if self.update % LOG_EVERY == 0 or self.update == 1:
                self._log(lane, {"loss": loss, "lr": rate})
        if self.update % MEASURE_EVERY == 0:
            self._measure()

    def _measure(self) -> None:
        for lane in self.lanes:
            self._log(lane, {"accuracy": lane.accuracy()})
            write_maps(lane.path, self.update, lane.maps())

    def _log(self, lane: Lane, values: dict[str, float]) -> None:
        lane.progress.seconds = time.process_time()
        lane.folder.log("update", lane.progress, values)


def train_toys(path: Path, settings: list[ToySettings], job: Job[bool]) -> bool:
    """Run in a process of its own, on one thread and at low priority; see `ToyRun.run`."""
    import torch

    torch.set_num_threads(1)
    if hasattr(os, "nice"):  # of this thread, as visitors' clicks come first
        os.nice(10)
    return ToyRun(path, settings, job).run()
