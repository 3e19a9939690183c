"""A toy run: one or two models, an update of each in turn, steered through its job."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from transformer.checkpoint.folder import save_checkpoint
from transformer.model import Transformer
from transformer.positions import StoredPositions
from transformer.training.cross_entropy import smoothed_cross_entropy
from transformer.training.data import collate
from transformer.training.distributed import World
from transformer.training.objective import Objective, learning_rate
from transformer.training.run_folder import RunFolder
from transformer.training.toys.files import KEPT, Control, write_maps, write_probe
from transformer.training.toys.settings import ToySettings
from transformer.training.toys.tasks import TASKS, make_corpus, make_tokenizer
from transformer.training.trainer import Trainer
from transformer.types import Floats

#: Held-out pairs on which accuracy is measured on the way.
SAMPLE = 200


class Job(Protocol):
    """The job of a run: `request` is the latest `Control`; a call reports progress in updates."""

    request: Any

    def __call__(self, step: int, most: int, /) -> None:
        """Report progress; may raise to stop the run."""


def model_of(trainer: Trainer) -> Transformer:
    """Return a toy's model; toys have two stacks."""
    assert isinstance(trainer.model, Transformer)
    return trainer.model


class HookedObjective(Objective):
    """Loss of a model with hooks."""

    def __init__(self, trainer: Trainer, settings: ToySettings) -> None:
        super().__init__(trainer.model, trainer.settings)
        self.transformer = model_of(trainer)
        self.hooks = settings.hooks()

    def logits(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Teacher forcing: src [B, S] and tgt_in [B, T] to logits [B, T, V]."""
        model = self.transformer
        encoded = model.encode(src, hooks=self.hooks)
        return model.logits(model.decode(tgt_in, encoded, hooks=self.hooks).hidden)

    def forward(self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss and negative log-likelihood of a batch, in nats."""
        return smoothed_cross_entropy(
            self.logits(src, tgt_in), tgt_out, self.smoothing, self.model.config.pad_id
        )


class Lane:
    """A model of these settings, its data, and its folder."""

    def __init__(self, settings: ToySettings, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.settings, self.path = settings, path
        corpus = make_corpus(settings.task)
        self.tokenizer = make_tokenizer(settings.task, corpus)
        self.folder = RunFolder(path)
        recipe = settings.recipe(self.tokenizer.vocab_size)
        self.trainer = Trainer(recipe, corpus, self.tokenizer, self.folder, "cpu", World())
        self.model = model_of(self.trainer)
        for positions in (self.model.src_positions, self.model.tgt_positions):
            if isinstance(positions, StoredPositions):
                positions.table.data.zero_()
        self.objective = HookedObjective(self.trainer, settings)
        self.trainer.objective = self.objective
        self.progress = self.trainer.progress
        self._batches = self.trainer._batches(0)
        self._held_out = [
            self.tokenizer.encode_many([pair[side] for pair in corpus.val]) for side in (0, 1)
        ]

    def rate(self, factor: float = 1.0) -> float:
        """Return the learning rate of the next update, `factor` times the schedule's."""
        settings, config = self.trainer.settings, self.trainer.config
        update = self.progress.update + 1
        return factor * learning_rate(update, settings, config.d_model, settings.max_updates)

    def step(self, factor: float = 1.0) -> tuple[float, float]:
        """Make one update. Returns the loss in nats a token, and the learning rate.

        Raises: `TrainingError` if the loss is not finite; the weights are then unchanged.
        """
        rate = self.rate(factor)
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
        best = self.objective.logits(batch.src, batch.tgt_in).argmax(-1)
        right = (best == batch.tgt_out) | (batch.tgt_out == self.trainer.config.pad_id)
        return right.all(-1).float().mean().item()

    @torch.no_grad()
    def maps(self) -> dict[str, Floats]:
        """Return the attention on the held-out probe: by kind [L, H, T, S]."""
        batch = collate(self._held_out[0][:1], self._held_out[1][:1])
        model, hooks = self.model, self.objective.hooks
        encoded = model.encode(batch.src, hooks=hooks, need_weights=True)
        decoded = model.decode(batch.tgt_in, encoded, hooks=hooks, need_weights=True)
        found = {
            "encoder_self": encoded.attention,
            "decoder_self": decoded.self_attention,
            "cross": decoded.cross_attention,
        }
        return {kind: np.asarray(each[:, 0]) for kind, each in found.items() if each is not None}

    def labels(self) -> tuple[list[str], list[str]]:
        """Return the pieces of the probe and of its answer: source and decoder input."""
        source, target = (
            [self.tokenizer.id_to_piece(i) for i in rows[0]] for rows in self._held_out
        )
        return [*source, "</s>"], ["<s>", *target]

    def save(self, path: Path, accuracy: float) -> Path:
        """Write the model as a checkpoint that computes what was trained."""
        model, settings = self.model, self.settings
        if settings.change == "no_scaling":
            # The app divides scores by sqrt(d_k); queries that much larger cancel it exactly.
            factor = math.sqrt(settings.d_model // settings.n_heads)
            for name, parameter in model.named_parameters():
                if name.endswith("w_q.weight"):
                    parameter.data.mul_(factor)
        card = _card(settings, accuracy, self.progress.update)
        toy = {"toy": dataclasses.asdict(settings), "accuracy": round(accuracy, 4)}
        longest = (max(map(len, rows)) + 1 for rows in self._held_out)
        sizes = dict(zip(("longest_source", "longest_target"), longest, strict=True))
        training = {"updates": self.progress.update, **sizes}
        return save_checkpoint(
            path, model, self.tokenizer, metrics={**toy, "training": training}, card=card
        )


def _card(settings: ToySettings, accuracy: float, updates: int) -> str:
    task = TASKS[settings.task]
    notes = {
        "no_positions": "Trained without positions: its stored tables are zero.",
        "no_scaling": "Trained without the division by sqrt(d_k); the weights of the queries are "
        "multiplied by sqrt(d_k), so that the paper's attention computes the same.",
        "no_warmup": "Trained without warm-up.",
    }
    return f"""# Toy: {task.title}

{task.about} Trained in Headlight for {updates:,} updates on generated strings.
{accuracy:.1%} of held-out strings are right, decoded greedily.
{notes.get(settings.change, "")}
"""


#: Updates between lines of metrics.jsonl, and between measures of accuracy with their maps.
LOG_EVERY, MEASURE_EVERY = 5, 25

#: Seconds after which a paused run ends and makes room for the next.
MOST_PAUSE = 300.0

#: Seconds between two checks of a paused run.
_CHECK = 0.05


class ToyRun:
    """Models in training, each in a numbered folder."""

    def __init__(self, path: Path, settings: list[ToySettings], job: Job) -> None:
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
        """Wait while paused; return True to make another update."""
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


def train_toys(path: Path, settings: list[ToySettings], job: Job) -> bool:
    """Run in a separate process, on one thread and at low priority; see `ToyRun.run`."""
    import torch

    torch.set_num_threads(1)
    if hasattr(os, "nice"):  # of this thread, as visitors' clicks come first
        os.nice(10)
    return ToyRun(path, settings, job).run()
