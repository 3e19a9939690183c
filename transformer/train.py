"""Training: the paper's recipe (section 5), resumable at any moment, on any number of processes.

    transformer train recipes/multi30k-en-de.toml --data DIR --out DIR [--resume]
    torchrun --nproc-per-node 2 -m transformer train ...

Everything random is drawn from (seed, epoch) or (seed, update, rank), so the state to keep is
small: weights, Adam's moments and two counters. A run that was killed and resumed ends in the same bits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer.checkpoint import CheckpointError, save_checkpoint
from transformer.config import ConfigError
from transformer.data import Batch, Corpus, Pair, collate, in_chunks, token_batches
from transformer.model import Transformer
from transformer.objective import Objective, learning_rate, smoothed_cross_entropy
from transformer.prepare import load_corpus, make_tokenizer
from transformer.recipe import Recipe
from transformer.run_folder import Progress, RunFolder, average_weights
from transformer.tokenizer import Tokenizer, seed_sampling

log = logging.getLogger(__name__)

LOG_EVERY = 50


@dataclass(frozen=True)
class World:
    """The processes that train together; launched by torchrun, else just this one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @classmethod
    def join(cls, device: str) -> World:
        """Join the group that torchrun's environment names, if there is one."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        return cls(dist.get_rank(), size, int(os.environ.get("LOCAL_RANK", "0")))

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0


class Trainer:
    """One training run: made from a recipe, a corpus and a folder, then `run()`."""

    def __init__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        tokenizer: Tokenizer,
        folder: RunFolder,
        device: str,
        world: World,
    ) -> None:
        self.recipe, self.corpus, self.tokenizer = recipe, corpus, tokenizer
        self.folder, self.world = folder, world
        self.settings = recipe.training
        self.config = recipe.model.replace(vocab_size=tokenizer.vocab_size)
        self.device = (
            torch.device(device, world.local_rank) if device == "cuda" else torch.device(device)
        )
        torch.manual_seed(self.settings.seed)
        self.model = Transformer(self.config).to(self.device)
        if self.settings.init:
            self._start_from(Path(self.settings.init))
        objective: nn.Module = Objective(self.model, self.settings)
        if self.settings.compile:
            objective = cast(nn.Module, torch.compile(objective, dynamic=True))
        if world.size > 1:
            ids = [world.local_rank] if device == "cuda" else None
            objective = DistributedDataParallel(objective, device_ids=ids)
        self.objective = objective
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=0.0,
            betas=(self.settings.beta1, self.settings.beta2),
            eps=self.settings.epsilon,
            fused=True,
        )
        self.progress = Progress()
        self.bfloat16 = wants_bfloat16(self.settings.precision, device)
        self._encoded = _encode(corpus.train, tokenizer, self.config.max_positions)
        self._val = _encode(corpus.val, tokenizer, self.config.max_positions)
        if not self._encoded[0]:
            raise ConfigError("the corpus has no training pair that fits max_positions")

    def run(self, *, show_progress: bool = True, tensorboard: bool = False) -> Path:
        """Train to the end of the recipe and write the checkpoint. Returns its folder."""
        n_updates = self.n_updates
        board = _board(self.folder.path) if tensorboard and self.world.leads else None
        bar = tqdm(
            total=n_updates,
            initial=self.progress.update,
            unit="update",
            disable=not (show_progress and self.world.leads),
            dynamic_ncols=True,
        )
        with bar, contextlib.closing(board) if board else contextlib.nullcontext():
            while self.progress.epoch < self.settings.epochs and not self._spent:
                self._epoch(n_updates, bar, board)
        return self.finish()

    @property
    def n_updates(self) -> int:
        """Updates of the whole run; later epochs may differ by a batch or two from the first."""
        n_updates = self.settings.epochs * len(self._batches(0))
        limit = self.settings.max_updates
        return min(n_updates, limit) if limit else n_updates

    @property
    def _spent(self) -> bool:
        return bool(self.settings.max_updates) and self.progress.update >= self.settings.max_updates

    def _batches(self, epoch: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        sources, targets = self._encoded
        return token_batches(
            np.array([len(ids) for ids in sources]),
            np.array([len(ids) for ids in targets]),
            self.settings.batch_tokens,
            seed=self.settings.seed,
            epoch=epoch,
        )

    def _epoch(self, n_updates: int, bar: tqdm[Any], board: Any) -> None:
        progress = self.progress
        if self.settings.subword_alpha:
            self._encoded = self._sample(progress.epoch)
        batches = self._batches(progress.epoch)
        started, seconds, tokens = time.monotonic(), progress.seconds, progress.tokens
        window: list[tuple[float, int]] = []
        while progress.batch < len(batches) and not self._spent:
            rate = learning_rate(progress.update + 1, self.settings, self.config.d_model, n_updates)
            loss, nll, n_tokens = self.update(batches[progress.batch], rate)
            progress.update += 1
            progress.batch += 1
            progress.tokens += n_tokens
            progress.seconds = seconds + time.monotonic() - started
            window.append((nll, n_tokens))
            bar.update()
            speed = (progress.tokens - tokens) / max(progress.seconds - seconds, 1e-9)
            bar.set_postfix(epoch=progress.epoch + 1, loss=f"{loss:.3f}", tokens_s=f"{speed:.0f}")
            if progress.update % LOG_EVERY == 0:
                mean = sum(part[0] for part in window) / sum(part[1] for part in window)
                window.clear()
                values = {"loss": loss, "nll": mean, "lr": rate, "tokens_per_second": speed}
                self._log("update", values, board)
            if self.settings.save_every and progress.update % self.settings.save_every == 0:
                self._save_state()
        if progress.batch >= len(batches):
            progress.epoch, progress.batch = progress.epoch + 1, 0
            if self.world.leads:
                self.folder.save_epoch(self.model, progress.epoch, self.settings.average)
                self._log("epoch", {"val_nll": self.validate()}, board)
        self._save_state()

    def update(self, rows: Sequence[int], rate: float) -> tuple[float, float, int]:
        """One step of Adam on one batch.

        The batch is the same for any number of processes: each takes its share of the rows, and
        the loss is divided by the tokens of them all.

        Returns: mean smoothed loss (nats a token), summed negative log-likelihood, tokens.
        """
        world, settings = self.world, self.settings
        sources, targets = self._encoded
        n_tokens = sum(len(targets[row]) + 1 for row in rows)
        share = rows[world.rank :: world.size]
        longest = max((max(len(sources[r]), len(targets[r])) + 1 for r in share), default=1)
        size = max(1, settings.micro_tokens // longest) if settings.micro_tokens else len(rows)
        # Every process must take part in each exchange of gradients, so all make as many parts.
        n_parts = self._most(-(-len(share) // size))
        parts = list(in_chunks(share, size))
        self.optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(_mix(settings.seed, self.progress.update, world.rank))
        totals = torch.zeros(2)
        for index in range(n_parts):
            # A process without rows of its own repeats one and leaves it out of the sum.
            part, weight = (parts[index], 1.0) if index < len(parts) else (rows[:1], 0.0)
            batch = collate([sources[row] for row in part], [targets[row] for row in part])
            last = index == n_parts - 1
            quiet = not last and isinstance(self.objective, DistributedDataParallel)
            no_sync = cast(DistributedDataParallel, self.objective).no_sync if quiet else None
            with no_sync() if no_sync else contextlib.nullcontext():
                with self._autocast():
                    loss, nll = self.objective(*self._to_device(batch))
                # DistributedDataParallel averages over processes; a sum is wanted.
                (loss * (weight * world.size / n_tokens)).backward()
            totals += torch.stack([loss.detach(), nll]).float().cpu() * weight
        if world.size > 1:
            dist.all_reduce(totals)
        if settings.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return totals[0].item() / n_tokens, totals[1].item(), n_tokens

    @torch.no_grad()
    def validate(self) -> float:
        """Negative log-likelihood of the validation text in nats a token; NaN without any."""
        sources, targets = self._val
        self.model.eval()
        total, count = 0.0, 0
        order = sorted(range(len(sources)), key=lambda row: len(targets[row]))
        for rows in in_chunks(order, 64):
            batch = collate([sources[row] for row in rows], [targets[row] for row in rows])
            src, tgt_in, tgt_out = self._to_device(batch)
            with self._autocast():
                logits = self.model(src, tgt_in)
            nll = smoothed_cross_entropy(logits, tgt_out, 0.0, self.config.pad_id)[1]
            total, count = total + nll.item(), count + batch.n_tokens
        self.model.train()
        return total / count if count else float("nan")

    def resume(self) -> None:
        """Continue from the folder's state; log lines written after it will come again."""
        self.progress = self.folder.load_state(self.model, self.optimizer, self.device)
        if self.world.leads:
            self.folder.drop_lines_after(self.progress.update)

    def finish(self) -> Path:
        """Average the last epochs' weights and write the checkpoint (section 6.1)."""
        if self.world.size > 1:
            dist.barrier()
        if self.world.leads:
            files = self.folder.epochs()[-self.settings.average :]
            if files:
                self.model.load_state_dict(average_weights(files))
            metrics = {
                "training": {
                    "recipe": self.recipe.to_dict(),
                    "updates": self.progress.update,
                    "epochs": self.progress.epoch,
                    "target_tokens": self.progress.tokens,
                    # Positions that training saw; the app marks what lies beyond them.
                    "longest_source": max(len(ids) for ids in self._encoded[0]) + 1,
                    "longest_target": max(len(ids) for ids in self._encoded[1]) + 1,
                    "averaged_epochs": len(files),
                    "hours": round(self.progress.seconds / 3600, 2),
                    "hardware": _hardware(self.device),
                    "processes": self.world.size,
                    "bfloat16": self.bfloat16,
                    "torch": torch.__version__,
                    "val_nll": round(self.validate(), 4) if self.corpus.val else None,
                }
            }
            save_checkpoint(self.folder.path, self.model, self.tokenizer, metrics=metrics)
        return self.folder.path

    def _save_state(self) -> None:
        if self.world.leads:
            self.folder.save_state(self.model, self.optimizer, self.progress)

    def _log(self, kind: str, values: dict[str, float], board: Any) -> None:
        if self.world.leads:
            self.folder.log(kind, self.progress, values)
        if board:
            for name, value in values.items():
                board.add_scalar(name, value, self.progress.update)

    def _sample(self, epoch: int) -> tuple[list[list[int]], list[list[int]]]:
        alpha, limit = self.settings.subword_alpha, self.config.max_positions
        seed_sampling(_mix(self.settings.seed, epoch, 0) % 2**31)
        return _fit(
            [self.tokenizer.sample(src, alpha=alpha) for src, _ in self.corpus.train],
            [self.tokenizer.sample(tgt, alpha=alpha) for _, tgt in self.corpus.train],
            limit,
        )

    def _start_from(self, folder: Path) -> None:
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        try:
            missing, _ = self.model.load_state_dict(
                {name: tensor.float() for name, tensor in weights.items()}, strict=False
            )
        except RuntimeError as error:
            raise CheckpointError(f"{folder}: does not fit this recipe: {error}") from None
        if set(missing) - {"generator.weight", "tgt_embedding.weight"}:
            raise CheckpointError(f"{folder}: lacks {min(missing)}")

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def _to_device(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        src, tgt_in, tgt_out = (
            tensor.to(self.device, non_blocking=True)
            for tensor in (batch.src, batch.tgt_in, batch.tgt_out)
        )
        return src, tgt_in, tgt_out

    def _most(self, number: int) -> int:
        if self.world.size == 1:
            return number
        most = torch.tensor(number, device=self.device)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        return int(most)


def train(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    resume: bool = False,
    device: str = "auto",
    tensorboard: bool = False,
    show_progress: bool = True,
) -> Path:
    """Run a recipe on the text under `data` and leave a checkpoint in `out`.

    Raises: `ConfigError` where `out` holds another run, `DataError` for text that is missing.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    world, folder = World.join(device), RunFolder(out)
    try:
        corpus = load_corpus(recipe.data, data)
        if world.leads:
            folder.claim(recipe, resume=resume)
            tokenizer = make_tokenizer(recipe, corpus, folder.tokenizer)
        if world.size > 1:
            dist.barrier()
        if not world.leads:
            tokenizer = Tokenizer.load(folder.tokenizer)
        trainer = Trainer(recipe, corpus, tokenizer, folder, device, world)
        if resume:
            trainer.resume()
        try:
            return trainer.run(show_progress=show_progress, tensorboard=tensorboard)
        except KeyboardInterrupt:
            log.warning("stopped at update %d; --resume continues", trainer.progress.update)
            raise
    finally:
        if world.size > 1:
            dist.destroy_process_group()


def wants_bfloat16(precision: str, device: str) -> bool:
    """Whether matrix products run in bfloat16: where asked for, or by "auto" where it is faster."""
    if precision != "auto":
        return precision == "bfloat16"
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.backends.cpu.get_cpu_capability() == "AVX512" and _cpu_flag("avx512_bf16"))


def _encode(
    pairs: Sequence[Pair], tokenizer: Tokenizer, max_positions: int
) -> tuple[list[list[int]], list[list[int]]]:
    return _fit(
        tokenizer.encode_many([src for src, _ in pairs]),
        tokenizer.encode_many([tgt for _, tgt in pairs]),
        max_positions,
    )


def _fit(
    sources: list[list[int]], targets: list[list[int]], max_positions: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Leave out pairs with an empty side or with more than max_positions tokens."""
    kept = [
        (src, tgt)
        for src, tgt in zip(sources, targets, strict=True)
        if 0 < len(src) < max_positions and 0 < len(tgt) < max_positions
    ]
    return [src for src, _ in kept], [tgt for _, tgt in kept]


def _mix(seed: int, number: int, rank: int) -> int:
    """A well-spread 63-bit seed from three small numbers."""
    return int(np.random.SeedSequence((seed, number, rank)).generate_state(1, np.uint64)[0] >> 1)


def _cpu_flag(flag: str) -> bool:
    try:
        return f" {flag} " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def _hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads, {platform.machine()}"


def _board(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"))
