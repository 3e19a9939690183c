"""One training run: updates, validation and the final checkpoint (section 5).

Random numbers depend on (seed, epoch) or (seed, update, rank) alone, so there is little to save. A
run resumed on the same machine with as many threads gives bitwise the same result.
"""

import contextlib
import dataclasses
import logging
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import read_state
from transformer.checkpoint.weights import Layout
from transformer.config import ConfigError
from transformer.model import Transformer
from transformer.models.one_stack.model import OneStack
from transformer.text.tokenizer import EOS_ID, PAD_ID, UNK_ID, Tokenizer
from transformer.training.corpus import encode_pairs
from transformer.training.data import Batch, Corpus, collate, token_batches
from transformer.training.distributed import World, compiled, hardware, wants_bfloat16
from transformer.training.grow import grown
from transformer.training.objective import Objective, learning_rate, task_of, validation_loss
from transformer.training.recipe import Recipe
from transformer.training.run_folder import Progress, RunFolder, average_weights, files_of

log = logging.getLogger(__name__)

#: Updates between lines of metrics.jsonl.
LOG_EVERY = 50


class TrainingError(ValueError):
    """Raised if a run cannot continue; the message gives the reason and possible remedies."""


class Begun(NamedTuple):
    """An update that a GPU may still be computing; `Trainer.read` waits for it."""

    number: int  # from 1
    totals: Tensor  # [2], smoothed loss and negative log-likelihood in nats, summed over tokens
    n_tokens: int


class Trainer:
    """One training run, built from a recipe, a corpus and a folder, and started by `run()`."""

    def __init__(
        self, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer, folder: RunFolder, device: str,
        world: World,
    ) -> None:  # fmt: skip
        self.recipe, self.corpus, self.tokenizer = recipe, corpus, tokenizer
        self.folder, self.world = folder, world
        self.settings = recipe.training
        self.config = recipe.model.replace(vocab_size=tokenizer.vocab_size)
        self.task = task_of(recipe, tokenizer)
        self.device = torch.device(f"cuda:{world.local_rank}" if device == "cuda" else device)
        if device == "cuda":
            # cuDNN plans attention for each shape, and batches rarely share a shape.
            torch.backends.cuda.enable_cudnn_sdp(False)
        torch.manual_seed(self.settings.seed)
        self.model: Transformer | OneStack = self.task.build(self.config).to(self.device)
        self.objective: nn.Module = Objective(self.model, self.settings)
        betas = self.settings.beta1, self.settings.beta2
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=betas, eps=self.settings.epsilon, fused=True
        )
        self.progress = Progress()
        self.bfloat16 = wants_bfloat16(self.settings.precision, device)
        limit = self.config.max_positions
        self._encoded = encode_pairs(corpus.train, tokenizer, limit)
        self._val = encode_pairs(corpus.val, tokenizer, limit)
        n_pairs, n_kept = len(corpus.train), len(self._encoded[0])
        if not n_kept:
            raise ConfigError(f"no training pair has 1 to {limit - 1} tokens on both sides")
        if n_kept < n_pairs and world.leads:
            log.warning(
                "%d of %d training pairs are left out: one side is empty or exceeds %d tokens",
                n_pairs - n_kept, n_pairs, limit - 1,
            )  # fmt: skip

    def run(self, *, show_progress: bool = True, tensorboard: bool = False) -> Path:
        """Train to the end of the recipe, write the checkpoint and return its folder."""
        n_updates, show_bar = self.n_updates, show_progress and self.world.leads
        if self.settings.compile:
            self.objective = compiled(self.objective, self._try_out, show_progress=show_bar)
        if self.world.size > 1:
            ids = [self.world.local_rank] if self.device.type == "cuda" else None
            self.objective = DistributedDataParallel(self.objective, device_ids=ids)
        board = self._board() if tensorboard and self.world.leads else None
        bar = tqdm(
            total=n_updates, initial=self.progress.update, unit="update", dynamic_ncols=True,
            disable=not show_bar,
        )  # fmt: skip
        with bar, contextlib.closing(board) if board else contextlib.nullcontext():
            while self.progress.epoch < self.settings.epochs and not self._done:
                self._epoch(n_updates, bar, board)
        return self.finish()

    def _try_out(self, objective: nn.Module) -> None:
        """Run forward and backward on batches that are the same for new and resumed runs.

        Even code for dynamic shapes is tuned to the first shape that it sees.
        """
        gpu = self.device.type == "cuda"
        samples: dict[bool, Batch] = {}
        for rows in self._batches(0)[:100]:
            batch = self._share(rows)
            # Sizes that happen to be equal here would be assumed to be always equal.
            if len({*batch.src.shape, *batch.tgt_in.shape}) == 3:
                # A GPU has separate attention kernels for lengths divisible by 8 and for others.
                samples.setdefault(gpu and batch.tgt_in.size(1) % 8 == 0, batch)
            if len(samples) == 1 + gpu:
                break
        for sample in samples.values() or [batch]:
            with self._autocast():
                loss, _ = objective(*self._to_device(sample))
            loss.backward()

    @property
    def n_updates(self) -> int:
        """Estimated number of updates in the whole run: epochs may differ by a batch or two."""
        n_updates = self.settings.epochs * len(self._batches(0))
        limit = self.settings.max_updates
        return min(n_updates, limit) if limit else n_updates

    @property
    def _done(self) -> bool:
        return bool(self.settings.max_updates) and self.progress.update >= self.settings.max_updates

    def _batches(self, epoch: int) -> list[NDArray[np.int64]]:
        src, tgt = (np.array([len(ids) for ids in side]) for side in self._encoded)
        settings = self.settings
        return token_batches(src, tgt, settings.batch_tokens, seed=settings.seed, epoch=epoch)

    def _epoch(self, n_updates: int, bar: "tqdm[Any]", board: Any) -> None:
        progress = self.progress
        batches = self._batches(progress.epoch)
        started, seconds, tokens = time.monotonic(), progress.seconds, progress.tokens
        save_every = self.settings.save_every
        begun: list[Begun] = []
        count, first = self.settings.snapshots, self.settings.first_snapshot
        snapshots = snapshot_updates(count, first, n_updates)
        if snapshots and progress.update == 0 and self.world.leads:
            self.folder.save_snapshot(self.model, 0)
        while progress.batch < len(batches) and not self._done:
            rate = learning_rate(progress.update + 1, self.settings, self.config.d_model, n_updates)
            begun.append(self.begin_update(batches[progress.batch], rate))
            progress.update += 1
            progress.batch += 1
            progress.tokens += begun[-1].n_tokens
            logs, keeps = progress.update % LOG_EVERY == 0, progress.update in snapshots
            saves = bool(save_every) and progress.update % save_every == 0
            bar.update()
            ends = self._done or progress.batch == len(batches)
            if self.device.type != "cpu" and not (logs or keeps or saves or ends):
                continue  # reading a loss would make a GPU wait for its next update
            for update in begun:
                loss, nll, n_tokens = self.read(update)
                progress.nll += nll
                progress.n_tokens += n_tokens
            begun.clear()
            progress.seconds = seconds + time.monotonic() - started
            speed = (progress.tokens - tokens) / max(progress.seconds - seconds, 1e-9)
            state = {"epoch": progress.epoch + 1, "loss": f"{loss:.3f}", "tokens/s": f"{speed:.0f}"}
            bar.set_postfix(state, refresh=False)
            if logs:
                mean = progress.nll / progress.n_tokens
                progress.nll, progress.n_tokens = 0.0, 0
                values = {"loss": loss, "nll": mean, "lr": rate, "tokens_per_second": speed}
                self._log("update", values, board)
            if keeps and self.world.leads:
                self.folder.save_snapshot(self.model, progress.update)
            if saves:
                self._save_state()
        if progress.batch >= len(batches):
            progress.epoch, progress.batch = progress.epoch + 1, 0
            if self.world.leads:
                self.folder.save_epoch(self.model, progress.epoch, self.settings.average)
                values = {"val_nll": self.validate()} if self._val[0] else {}
                self._log("epoch", values, board)
        self._save_state()

    def update(self, rows: NDArray[np.int64], rate: float) -> tuple[float, float, int]:
        """Make one step of Adam on one batch, and read its loss.

        Returns: mean smoothed loss (nats per token), summed negative log-likelihood, tokens.
        Raises: `TrainingError` if the loss is not finite; the weights are then unchanged.
        """
        return self.read(self.begin_update(rows, rate))

    def begin_update(self, rows: NDArray[np.int64], rate: float) -> Begun:
        """Begin a step of Adam on one batch, without waiting for a GPU to finish it.

        The batch does not depend on the number of processes: a process takes its share of the rows,
        and the loss is divided by all processes' tokens. A non-finite loss changes no weight.
        """
        world, settings = self.world, self.settings
        number = self.progress.update + 1
        self.optimizer.zero_grad(set_to_none=True)
        draw = np.random.SeedSequence((settings.seed, number - 1, world.rank))
        torch.manual_seed(int(draw.generate_state(1, np.uint64)[0] >> 1))
        # A process without rows still exchanges gradients, with a row of weight 0.
        weight, batch = float(len(rows) > world.rank), self._share(rows)
        counted = torch.tensor([weight * batch.n_tokens])
        n_tokens = max(int(world.add(counted, self.device)[0]), 1)
        with self._autocast():
            loss, nll = self.objective(*self._to_device(batch))
        # DistributedDataParallel averages over processes; we need the sum.
        (loss * (weight * world.size / n_tokens)).backward()
        totals = torch.stack([loss.detach(), nll]).float() * weight
        totals = world.add(totals, self.device)
        if settings.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Adam skips a step with `found_inf`, as it does for a gradient scaler.
        self.optimizer.found_inf = (~totals[0].isfinite()).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        return Begun(number, totals, n_tokens)

    def read(self, begun: Begun) -> tuple[float, float, int]:
        """Wait for an update and return its numbers; see `update`."""
        loss, nll = begun.totals.tolist()
        if not math.isfinite(loss):
            advice = "a lower peak_lr, a longer warmup or clip_norm may help"
            raise TrainingError(f"the loss at update {begun.number} is not finite; {advice}")
        return loss / begun.n_tokens, nll, begun.n_tokens

    def _share(self, rows: NDArray[np.int64]) -> Batch:
        """Pad this process's share of the rows into a batch; without a share, use one row."""
        share = rows[self.world.rank :: self.world.size]
        rows, (sources, targets) = share if len(share) else rows[:1], self._encoded
        batch = collate([sources[row] for row in rows], [targets[row] for row in rows])
        if self.settings.word_dropout:
            batch = with_word_dropout(batch, self.settings.word_dropout)
        return self.task.prepare(batch)

    def validate(self) -> float:
        """Return the validation text's negative log-likelihood in nats per token."""
        how = {"prepare": self.task.examine, "autocast": self._autocast}
        loss = validation_loss(self.model, *self._val, **how)
        self.model.train()
        return loss

    def start_from(self, folder: Path) -> None:
        """Load initial weights, grown if the recipe says so.

        Raises: `CheckpointError` if their shapes do not match, `ConfigError` if they cannot grow.
        """
        if self.settings.grow:
            small = load_checkpoint(folder)
            weights = grown(small, self.config, self.tokenizer, self.settings.seed)
        else:
            weights = read_state(ModelRef.of(folder), Layout.of(self.model))
        self.model.load_state_dict(weights, strict=False)

    def resume(self) -> None:
        """Restore the folder's state and remove later log lines, which will be written again."""
        self.progress = self.folder.load_state(self.model, self.optimizer, self.device)
        if self.world.leads:
            self.folder.drop_lines_after(self.progress)
            at = self.progress
            log.info("%s: resuming after update %d, epoch %d",
                     self.folder.path, at.update, at.epoch + 1)  # fmt: skip

    def finish(self) -> Path:
        """Average the last epochs' weights and write the checkpoint (section 6.1)."""
        self.world.wait()
        if not self.world.leads:
            return self.folder.path
        progress, average = self.progress, self.settings.average
        if progress.batch:
            # `max_updates` ended the run within an epoch, which counts as an epoch.
            self.folder.save_epoch(self.model, progress.epoch + 1, average)
        if self.settings.snapshots:
            self.folder.save_snapshot(self.model, progress.update)
        epochs = self.folder.epochs()[-average:]
        if epochs:
            self.model.load_state_dict(average_weights(epochs, self.model))
        training = {
            "recipe": self.recipe.to_dict(),
            "updates": progress.update,
            "epochs": progress.epoch,
            "target_tokens": progress.tokens,
            # Longest sequences in training; the app marks positions beyond them.
            "longest_source": max(map(len, self._encoded[0])) + 1,
            "longest_target": max(map(len, self._encoded[1])) + 1,
            "averaged_epochs": len(epochs),
            "hours": round(progress.seconds / 3600, 2),
            "hardware": hardware(self.device),
            "processes": self.world.size,
            "bfloat16": self.bfloat16,
            "torch": torch.__version__,
            "val_nll": round(self.validate(), 4) if self._val[0] else None,
        }
        metrics = {"training": training}
        files = files_of(self.recipe)
        return files.save(self.folder.path, self.model, self.tokenizer, metrics=metrics)

    def _save_state(self) -> None:
        if self.world.leads:
            self.folder.save_state(self.model, self.optimizer, self.progress)

    def _log(self, kind: str, values: dict[str, float], board: Any) -> None:
        if self.world.leads:
            self.folder.log(kind, self.progress, values)
        if board:
            for name, value in values.items():
                board.add_scalar(name, value, self.progress.update)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def _to_device(self, batch: Batch) -> list[Tensor]:
        parts = [batch.src, batch.tgt_in, batch.tgt_out]
        if self.device.type == "cuda":  # copies from pinned memory do not wait
            parts = [part.pin_memory() for part in parts]
        return [part.to(self.device, non_blocking=True) for part in parts]

    def _board(self) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError(
                "TensorBoard is not installed: `pip install tensorboard` or omit --tensorboard"
            ) from None
        # `purge_step` removes events after the update at which a run resumes.
        place = str(self.folder.path / "tensorboard")
        return SummaryWriter(place, purge_step=self.progress.update + 1)


def snapshot_updates(count: int, first: int, last: int) -> set[int]:
    """Return the updates to snapshot: 0, then evenly in log(update), excluding the last."""
    if count < 2:
        return set()
    steps = max(count - 2, 1)
    first = min(first, last)
    return {0} | {round(first * (last / first) ** (step / steps)) for step in range(steps)}


def with_word_dropout(batch: Batch, share: float) -> Batch:
    """Replace a share of source tokens by `<unk>`."""
    words = (batch.src != PAD_ID) & (batch.src != EOS_ID)
    dropped = words & (torch.rand(batch.src.shape) < share)
    return dataclasses.replace(batch, src=batch.src.masked_fill(dropped, UNK_ID))
