"""The libraries of `train.py`, each in its own process, making updates on request.

All train an encoder-decoder of one shape on the same padded batches of token ids in float32: label
smoothing 0.1, dropout on sub-layers and embeddings, Adam. Each by its own training step:

- headlight: `Trainer.update`, compiled as in `recipes/multi30k-en-de.toml`, or not.
- transformers: `Trainer.train` on `MarianMTModel`.
- joeynmt: its `Batch`, model, loss and optimizer, in the order of `TrainManager._train_step`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.turns import answer

#: Makes a number of updates; returns seconds, target tokens and the last loss in nats a token.
Updates = Callable[[int], tuple[float, int, float]]


class Work(NamedTuple):
    """The common work: a trainer of this project, and its batches in order."""

    trainer: Any
    batches: list[Any]

    def batch(self, index: int) -> Any:
        """Return a batch (see `collate`); after the last comes the first again."""
        from transformer.training.data import collate

        rows = self.batches[index % len(self.batches)]
        sources, targets = self.trainer._encoded
        return collate([sources[row] for row in rows], [targets[row] for row in rows])


def prepare(folder: Path, settings: dict[str, Any]) -> Work:
    """Read the text and make batches. `settings` are the tables of a recipe."""
    from transformer.text.tokenizer import Tokenizer
    from transformer.training.corpus import load_corpus, make_tokenizer
    from transformer.training.distributed import World
    from transformer.training.recipe import Recipe
    from transformer.training.run_folder import RunFolder
    from transformer.training.trainer import Trainer

    recipe = Recipe.from_dict(settings)
    corpus = load_corpus(recipe.data, folder)
    file = folder / "tokenizer.model"
    tokenizer = Tokenizer.load(file) if file.exists() else make_tokenizer(recipe, corpus, file)
    trainer = Trainer(
        recipe, corpus, tokenizer, RunFolder(folder / "run"), "cpu", World.join("cpu")
    )
    return Work(trainer, trainer._batches(0))


class CannotTakePartError(Exception):
    """A library that cannot take part on this machine."""


def headlight(work: Work, compile_it: bool) -> Updates:
    from transformer.training.distributed import compiled

    trainer, rate = work.trainer, 5e-4
    if compile_it:
        plain = trainer.objective
        trainer.objective = compiled(plain, trainer._try_out, show_progress=False)
        if trainer.objective is plain:
            raise CannotTakePartError("torch.compile does not work here")

    def updates(count: int) -> tuple[float, int, float]:
        began, tokens, loss = time.perf_counter(), 0, 0.0
        for _ in range(count):
            rows = work.batches[trainer.progress.update % len(work.batches)]
            loss, _, n_tokens = trainer.update(rows, rate)
            trainer.progress.update += 1
            tokens += n_tokens
        return time.perf_counter() - began, tokens, loss

    return updates


def transformers(work: Work) -> Updates:
    from transformers import MarianMTModel, Trainer, TrainerCallback, TrainingArguments

    from benchmarks.random_marian import marian_config

    config = work.trainer.config
    model = MarianMTModel(
        marian_config(
            config.vocab_size, config.d_model, config.d_ff, config.n_heads,
            (config.n_encoder_layers, config.n_decoder_layers), dropout=config.dropout,
            attention_dropout=0.0, activation_dropout=0.0, activation_function="relu",
            max_position_embeddings=config.max_positions, scale_embedding=True,
            pad_token_id=config.pad_id, eos_token_id=config.eos_id, bos_token_id=config.bos_id,
            decoder_start_token_id=config.bos_id, tie_word_embeddings=True,
        )
    )  # fmt: skip
    done = 0

    class Clock(TrainerCallback):
        began = ended = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = self.began or time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ended = time.perf_counter()

    def as_inputs(items: list[int]) -> dict[str, Any]:
        batch = work.batch(items[0])
        return {
            "input_ids": batch.src,
            "attention_mask": (batch.src != config.pad_id).long(),
            "decoder_input_ids": batch.tgt_in,
            "labels": batch.tgt_out.masked_fill(batch.tgt_out == config.pad_id, -100),
        }

    def updates(count: int) -> tuple[float, int, float]:
        nonlocal done
        clock, indices = Clock(), list(range(done, done + count))
        done += count
        with tempfile.TemporaryDirectory() as place:
            trainer = Trainer(
                model=model,
                args=TrainingArguments(
                    place, per_device_train_batch_size=1, max_steps=count, learning_rate=5e-4,
                    lr_scheduler_type="constant", adam_beta2=0.98, adam_epsilon=1e-9,
                    label_smoothing_factor=0.1, max_grad_norm=0.0, optim="adamw_torch_fused",
                    report_to=[], save_strategy="no", logging_strategy="no", use_cpu=True,
                    disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=False,
                ),
                train_dataset=indices,  # type: ignore[arg-type]
                data_collator=as_inputs,
                callbacks=[clock],
            )  # fmt: skip
            trainer._get_train_sampler = lambda *_: None  # type: ignore[method-assign]
            result = trainer.train()
        tokens = sum(work.batch(index).n_tokens for index in indices)
        return clock.ended - clock.began, tokens, result.training_loss

    return updates


class _Pieces:
    """The part of JoeyNMT's `Vocabulary` that its model uses."""

    specials: tuple[str, ...] = ()
    lang_tags: tuple[str, ...] = ()
    sep_index = None

    def __init__(self, config: Any) -> None:
        self.size, self.pad_index, self.bos_index = config.vocab_size, config.pad_id, config.bos_id
        self.eos_index, self.unk_index = config.eos_id, config.unk_id

    def __len__(self) -> int:
        return self.size


def joeynmt(work: Work) -> Updates:
    import torch
    from joeynmt.batch import Batch
    from joeynmt.builders import build_optimizer
    from joeynmt.model import build_model

    config = work.trainer.config
    stack = {
        "type": "transformer", "hidden_size": config.d_model, "ff_size": config.d_ff,
        "num_heads": config.n_heads, "dropout": config.dropout, "layer_norm": "post",
        "embeddings": {"embedding_dim": config.d_model, "scale": True, "dropout": config.dropout},
    }  # fmt: skip
    pieces = _Pieces(config)
    model = build_model(
        {
            "tied_embeddings": True, "tied_softmax": True, "embed_initializer": "normal",
            "embed_init_weight": config.d_model**-0.5,
            "encoder": {**stack, "num_layers": config.n_encoder_layers},
            "decoder": {**stack, "num_layers": config.n_decoder_layers},
        },
        pieces, pieces,
    )  # fmt: skip
    model.loss_function = ("crossentropy", 0.1)
    adam = {"optimizer": "adam", "learning_rate": 5e-4, "adam_betas": (0.9, 0.98), "adam_eps": 1e-9}
    optimizer = build_optimizer(adam, model.parameters())
    done = 0

    def updates(count: int) -> tuple[float, int, float]:
        nonlocal done
        began, tokens, loss = time.perf_counter(), 0, 0.0
        for index in range(done, done + count):
            given = work.batch(index)
            whole = torch.cat([given.tgt_in, given.tgt_out[:, -1:]], dim=1)  # `<s>` ... `</s>`
            ends = (given.tgt_out != config.pad_id).sum(1)
            whole[torch.arange(len(whole)), ends] = config.eos_id
            batch = Batch(
                given.src, (given.src != config.pad_id).sum(1), None, whole, None,
                torch.arange(len(whole)), torch.device("cpu"), config.pad_id, config.eos_id,
            )  # fmt: skip
            model.train()
            batch.sort_by_src_length()
            summed, _, _, correct = model(return_type="loss", **vars(batch))
            mean = batch.normalize(summed, normalization="tokens")
            batch.normalize(correct, "sum")
            mean.backward()
            loss = mean.item()
            optimizer.step()
            optimizer.zero_grad()
            tokens += batch.ntokens
        done += count
        return time.perf_counter() - began, tokens, loss

    return updates


CONTESTANTS: dict[str, Callable[[Work], Updates]] = {
    "headlight": lambda work: headlight(work, True),
    "headlight, eager": lambda work: headlight(work, False),
    "transformers": transformers,
    "joeynmt": joeynmt,
}


def serve(name: str, folder: Path, threads: int) -> None:
    """Make the updates that lines on stdin ask for, until stdin ends.

    The first line of the answer lists the tasks: none if the library cannot take part.
    """
    import torch

    torch.set_num_threads(threads)
    answers, sys.stdout = sys.stdout, sys.stderr  # a Trainer prints
    work = prepare(folder, json.loads((folder / "recipe.json").read_text()))
    try:
        updates = CONTESTANTS[name](work)
    except CannotTakePartError as reason:
        print(f"without {name}: {reason}", file=sys.stderr)
        answer((), dict, answers)
        return

    def do(asked: dict[str, Any]) -> dict[str, float]:
        return dict(zip(("seconds", "tokens", "loss"), updates(asked["count"]), strict=True))

    answer(["update"], do, answers)
