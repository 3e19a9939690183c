"""A toy run: one or two models that update in turn, controlled through the run's job."""

import dataclasses
import math
import os
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from transformer.checkpoint.folder import save_checkpoint
from transformer.model import Transformer
from transformer.positions import StoredPositions
from transformer.training.data import collate
from transformer.training.distributed import World
from transformer.training.objective import Objective, learning_rate
from transformer.training.run_folder import RunFolder
from transformer.training.toys.files import KEPT, Control, write_maps, write_probe
from transformer.training.toys.settings import TASKS, TOYS, ToySettings, make_corpus, make_tokenizer
from transformer.training.trainer import Trainer
from transformer.types import Floats

#: Held-out pairs for accuracy during training.
SAMPLE = 200


class Job(Protocol):
    """A run's job: `request` is the latest `Control`; a call reports progress in updates."""

    request: Any

    def __call__(self, step: int, most: int, /) -> None:
        """Report progress; may raise to stop the run."""


class Lane:
    """A model in training, with its data and folder."""

    def __init__(self, settings: ToySettings, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.settings, self.path = settings, path
        corpus = make_corpus(settings.task)
        self.tokenizer = make_tokenizer(settings.task, corpus)
        self.folder = RunFolder(path)
        recipe = settings.recipe(self.tokenizer.vocab_size)
        self.trainer = Trainer(recipe, corpus, self.tokenizer, self.folder, "cpu", World())
        assert isinstance(self.trainer.model, Transformer)
        self.model = self.trainer.model
        for positions in (self.model.src_positions, self.model.tgt_positions):
            if isinstance(positions, StoredPositions):
                positions.table.data.zero_()
        self.objective = Objective(self.model, self.trainer.settings, settings.hooks())
        self.trainer.objective = self.objective
        self.progress = self.trainer.progress
        self._batches = self.trainer._batches(0)
        self._held_out = [
            self.tokenizer.encode_many([pair[side] for pair in corpus.val]) for side in (0, 1)
        ]

    def step(self, factor: float = 1.0) -> tuple[float, float]:
        """Make one update, with `factor` times the scheduled learning rate.

        Returns: the loss in nats per token, and the learning rate.
        Raises: `TrainingError` if the loss is not finite; the weights are then unchanged.
        """
        schedule, d_model = self.trainer.settings, self.trainer.config.d_model
        update = self.progress.update + 1
        rate = factor * learning_rate(update, schedule, d_model, schedule.max_updates)
        if self.progress.batch == len(self._batches):
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
            self._batches = self.trainer._batches(self.progress.epoch)
        loss, _, n_tokens = self.trainer.update(self._batches[self.progress.batch], rate)
        self.progress.update += 1
        self.progress.batch += 1
        self.progress.tokens += n_tokens
        return loss, rate

    @torch.no_grad()
    def accuracy(self, most: int | None = SAMPLE) -> float:
        """Return the share of held-out sentences that greedy decoding solves.

        Greedy decoding returns the reference exactly if each of its tokens is the likeliest after
        the tokens before it, which one pass of teacher forcing shows.
        """
        sources, targets = (rows[:most] for rows in self._held_out)
        batch = collate(sources, targets)
        best: torch.Tensor = self.model(batch.src, batch.tgt_in, self.objective.hooks).argmax(-1)
        right = (best == batch.tgt_out) | (batch.tgt_out == self.trainer.config.pad_id)
        return right.all(-1).float().mean().item()

    @torch.no_grad()
    def maps(self) -> dict[str, Floats]:
        """Return the held-out probe's attention by kind, [L, H, T, S]."""
        batch = collate(self._held_out[0][:1], self._held_out[1][:1])
        model, hooks = self.model, self.objective.hooks
        encoded = model.encode(batch.src, hooks=hooks, need_weights=True)
        decoded = model.decode(batch.tgt_in, encoded, hooks=hooks, need_weights=True)
        maps = {
            "encoder_self": encoded.attention,
            "decoder_self": decoded.self_attention,
            "cross": decoded.cross_attention,
        }
        return {
            kind: np.asarray(weights[:, 0]) for kind, weights in maps.items() if weights is not None
        }

    def labels(self) -> tuple[list[str], list[str]]:
        """Return the probe's source pieces and decoder input pieces."""
        source, target = (
            [self.tokenizer.id_to_piece(i) for i in rows[0]] for rows in self._held_out
        )
        return [*source, "</s>"], ["<s>", *target]

    def save(self, path: Path, accuracy: float) -> Path:
        """Write the model as a checkpoint that computes what was trained."""
        model, settings = self.model, self.settings
        if settings.change == "no_scaling":
            # The app divides scores by sqrt(d_k); larger queries cancel the division exactly.
            factor = math.sqrt(settings.d_model // settings.n_heads)
            for name, parameter in model.named_parameters():
                if name.endswith("w_q.weight"):
                    parameter.data.mul_(factor)
        source, target = (max(map(len, rows)) + 1 for rows in self._held_out)
        updates = self.progress.update
        training = {"updates": updates, "longest_source": source, "longest_target": target}
        toy = {"toy": dataclasses.asdict(settings), "accuracy": round(accuracy, 4)}
        card, metrics = _card(settings, accuracy, updates), {**toy, "training": training}
        return save_checkpoint(path, model, self.tokenizer, metrics=metrics, card=card)


def _card(settings: ToySettings, accuracy: float, updates: int) -> str:
    task = TASKS[settings.task]
    return f"""# Toy: {task.title}

{task.about} Trained in Headlight for {updates:,} updates on generated strings.
{accuracy:.1%} of held-out strings are decoded correctly by greedy search.
{TOYS["notes"].get(settings.change, "")}
"""


#: Updates between lines of metrics.jsonl, and between measurements of accuracy and maps.
LOG_EVERY, MEASURE_EVERY = 5, 25

#: Seconds after which a paused run ends to make room for the next.
MOST_PAUSE = 300.0


class ToyRun:
    """Models in training, each in a numbered folder."""

    def __init__(self, path: Path, settings: list[ToySettings], job: Job) -> None:
        """Build the models. Args: job: receives progress in updates; its request is a `Control`."""
        self.job = job
        self.lanes = [Lane(choice, path / str(index)) for index, choice in enumerate(settings)]
        self.updates = max(choice.updates for choice in settings)
        self.update, self.factor = 0, 1.0
        for lane in self.lanes:
            write_probe(lane.path, *lane.labels())
            write_maps(lane.path, 0, lane.maps())

    def run(self) -> bool:
        """Train to the end or until a stop request, and save the models as checkpoints.

        Returns: True if the end was reached.
        Raises: `TrainingError` if a loss is not finite, `OSError` if the disk is full.
        """
        while self.update < self.updates and self._wait():
            self._step()
        self.job(self.update, self.updates)
        for lane in self.lanes:
            accuracy = lane.accuracy(None)
            self._log(lane, {"accuracy": accuracy})
            write_maps(lane.path, self.update, lane.maps())
            if lane.settings.keepable and self.update:
                lane.save(lane.path / KEPT, accuracy)
        return self.update == self.updates

    def _wait(self) -> bool:
        """Wait while paused; return False to stop."""
        since, paused = time.monotonic(), False
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
            time.sleep(0.05)

    def _step(self) -> None:
        results = [lane.step(self.factor) for lane in self.lanes]
        self.update += 1
        for lane, (loss, rate) in zip(self.lanes, results, strict=True):
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


def train_toys(path: Path, settings: list[ToySettings], job: Job) -> bool:
    """Run on one thread and at low priority, in a separate process; see `ToyRun.run`."""
    torch.set_num_threads(1)
    if hasattr(os, "nice"):  # visitors' clicks come first
        os.nice(10)
    return ToyRun(path, settings, job).run()
