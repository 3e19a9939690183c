"""Training on a CPU: Headlight, `transformers`' Trainer and JoeyNMT on the same batches.

    python benchmarks/train.py [--rounds 7] [--updates 4] [--data ../shared/data] [--json]

All three train an encoder-decoder of one shape in float32 on the same padded batches of at most
4,096 tokens, with label smoothing 0.1, dropout on sub-layers and embeddings, and Adam, by their own
training step: `Trainer.update` here (compiled by `torch.compile`, or not), `Trainer.train` on a
`MarianMTModel`, and the order of `TrainManager._train_step` in JoeyNMT. The text is the project's
phrasebook, English to German, or Multi30k's with --data.

Each library has its own process (see `turns.py`). The processes take turns, a few updates each
round, and a first round warms up. Speeds are medians over rounds; a ratio is the median of the
ratios within a round, whose batches are the same. On a machine that others use too, speeds by
processor time vary less than those by the clock.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.turns import (  # noqa: E402
    Figure,
    Process,
    answer,
    missing,
    processors,
    report,
    rounds,
    say,
    setting,
)

#: Headlight's speed by the other's: at least this is aimed at.
AIM = 1.5

SHAPES: dict[str, dict[str, Any]] = {
    "small": {"preset": "small", "max_positions": 512},  # as in recipes/multi30k-en-de.toml
    "tiny": {"d_model": 32, "d_ff": 64, "n_heads": 4, "n_encoder_layers": 1,
             "n_decoder_layers": 1, "max_positions": 512},
}  # fmt: skip

#: Target tokens a second of each round, by library: by the clock and by processor time.
Rates = dict[str, list[tuple[float, float]]]

#: Updates on these batches; returns both times in seconds and the last loss in nats a token.
Update = Callable[[Sequence[Any]], tuple[float, float, float]]


class Work(NamedTuple):
    """The common work: a trainer of this project, and its batches as rows of the corpus."""

    trainer: Any
    rows: list[Any]

    def batch(self, index: int) -> Any:
        """Return the batch at this index, counted round and round."""
        from transformer.training.data import collate

        sources, targets = self.trainer._encoded
        rows = self.rows[index % len(self.rows)]
        return collate([sources[row] for row in rows], [targets[row] for row in rows])


def recipe_of(shape: str, corpus: str) -> Any:
    """Return the recipe of the race."""
    from transformer.training.recipe import Recipe

    return Recipe.from_dict({
        "model": SHAPES[shape],
        "tokenizer": {"vocab_size": 8000 if shape == "small" else 60},
        "data": {"corpora": [corpus], "src": "en", "tgt": "de"},
        "training": {"batch_tokens": 4096, "precision": "float32", "seed": 1},
    })  # fmt: skip


def prepare(recipe: Any, corpus: Any, folder: Path) -> Work:
    """Make the batches of a corpus; files go to `folder`."""
    from transformer.training.corpus import make_tokenizer
    from transformer.training.distributed import World
    from transformer.training.run_folder import RunFolder
    from transformer.training.trainer import Trainer

    tokenizer = make_tokenizer(recipe, corpus, folder / "tokenizer.model")
    run = RunFolder(folder / "run")
    trainer = Trainer(recipe, corpus, tokenizer, run, "cpu", World.join("cpu"))
    return Work(trainer, trainer._batches(0))


def timed(step: Callable[[Any], float]) -> Update:
    """Return an update that calls `step` on one batch after the other."""

    def update(batches: Sequence[Any]) -> tuple[float, float, float]:
        clock, processor, loss = time.perf_counter(), time.process_time(), 0.0
        for batch in batches:
            loss = step(batch)
        return time.perf_counter() - clock, time.process_time() - processor, loss

    return update


def eager(work: Work) -> Update:
    trainer = work.trainer

    def step(batch: Any) -> float:
        trainer._share = lambda _: batch
        trainer.progress.update += 1
        return float(trainer.update(work.rows[0], 5e-4)[0])

    return timed(step)


def compiled(work: Work) -> Update | None:
    """Return Headlight's compiled update; None if `torch.compile` does not work here."""
    from transformer.training.distributed import compiled

    plain = work.trainer.objective
    work.trainer.objective = compiled(plain, work.trainer._try_out, show_progress=False)
    return None if work.trainer.objective is plain else eager(work)


def transformers(work: Work) -> Update:
    from transformers import (
        MarianConfig,
        MarianMTModel,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    config = work.trainer.config
    model = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size, d_model=config.d_model,
            encoder_layers=config.n_encoder_layers, decoder_layers=config.n_decoder_layers,
            encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
            encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
            dropout=config.dropout, attention_dropout=0.0, activation_dropout=0.0,
            activation_function="relu", max_position_embeddings=config.max_positions,
            scale_embedding=True, tie_word_embeddings=True, pad_token_id=config.pad_id,
            eos_token_id=config.eos_id, bos_token_id=config.bos_id,
            decoder_start_token_id=config.bos_id,
        )
    )  # fmt: skip

    class Clock(TrainerCallback):
        """The time from the first step's begin to the last one's end, without setting up."""

        began = ended = (0.0, 0.0)

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            if not any(self.began):
                self.began = time.perf_counter(), time.process_time()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ended = time.perf_counter(), time.process_time()

    def inputs(batches: list[Any]) -> dict[str, Any]:
        (batch,) = batches
        return {
            "input_ids": batch.src,
            "attention_mask": (batch.src != config.pad_id).long(),
            "decoder_input_ids": batch.tgt_in,
            "labels": batch.tgt_out.masked_fill(batch.tgt_out == config.pad_id, -100),
        }

    def update(batches: Sequence[Any]) -> tuple[float, float, float]:
        clock = Clock()
        with tempfile.TemporaryDirectory() as place:
            arguments = TrainingArguments(
                place, per_device_train_batch_size=1, max_steps=len(batches), learning_rate=5e-4,
                lr_scheduler_type="constant", adam_beta2=0.98, adam_epsilon=1e-9,
                label_smoothing_factor=0.1, max_grad_norm=0.0, optim="adamw_torch_fused",
                report_to=[], save_strategy="no", logging_strategy="no", use_cpu=True,
                disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=False,
            )  # fmt: skip
            trainer = Trainer(
                model=model, args=arguments, train_dataset=batches,
                data_collator=inputs, callbacks=[clock],
            )  # fmt: skip
            trainer._get_train_sampler = lambda *_: None  # type: ignore[method-assign]
            # Its output would be among the answers to the race.
            with contextlib.redirect_stdout(sys.stderr):
                loss = trainer.train().training_loss
        (began, processor), (ended, processor_ended) = clock.began, clock.ended
        return ended - began, processor_ended - processor, loss

    return update


class _Vocabulary:
    """The part of JoeyNMT's `Vocabulary` that its model uses."""

    specials: tuple[str, ...] = ()
    lang_tags: tuple[str, ...] = ()
    sep_index = None

    def __init__(self, config: Any) -> None:
        self.size, self.pad_index, self.bos_index = config.vocab_size, config.pad_id, config.bos_id
        self.eos_index, self.unk_index = config.eos_id, config.unk_id

    def __len__(self) -> int:
        return int(self.size)


def joeynmt(work: Work) -> Update:
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
    settings = {
        "tied_embeddings": True, "tied_softmax": True, "embed_initializer": "normal",
        "embed_init_weight": config.d_model**-0.5,
        "encoder": {**stack, "num_layers": config.n_encoder_layers},
        "decoder": {**stack, "num_layers": config.n_decoder_layers},
    }  # fmt: skip
    vocabulary = _Vocabulary(config)
    model = build_model(settings, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.1)
    adam = {"optimizer": "adam", "learning_rate": 5e-4, "adam_betas": (0.9, 0.98), "adam_eps": 1e-9}
    optimizer = build_optimizer(adam, model.parameters())

    def step(given: Any) -> float:
        target = torch.cat([given.tgt_in, given.tgt_out[:, -1:]], dim=1)  # `<s>` ... `</s>`
        target[torch.arange(len(target)), (given.tgt_out != config.pad_id).sum(1)] = config.eos_id
        batch = Batch(
            given.src, (given.src != config.pad_id).sum(1), None, target, None,
            torch.arange(len(target)), torch.device("cpu"), config.pad_id, config.eos_id,
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
        return float(loss)

    return timed(step)


CONTESTANTS: dict[str, Callable[[Work], Update | None]] = {
    "Headlight, compiled": compiled,
    "Headlight": eager,
    "transformers": transformers,
    "JoeyNMT": joeynmt,
}
OTHERS = ("transformers", "JoeyNMT")


def serve(name: str, given: argparse.Namespace) -> None:
    """Make the updates that lines on stdin ask for; no task if the library cannot take part."""
    import torch

    from transformer.training.corpus import load_corpus

    torch.set_num_threads(given.threads)
    recipe = recipe_of(given.shape, "multi30k" if given.data else "phrasebook")
    with tempfile.TemporaryDirectory() as place:
        corpus = load_corpus(recipe.data, given.data or Path(place))
        work = prepare(recipe, corpus, Path(place))
    update, done = CONTESTANTS[name](work), 0

    def do(_: str) -> dict[str, Any]:
        nonlocal done
        batches = [work.batch(index) for index in range(done, done + given.updates)]
        done += given.updates
        seconds, processor, loss = update(batches)  # type: ignore[misc]
        n_tokens = sum(batch.n_tokens for batch in batches)
        return {"rates": (n_tokens / seconds, n_tokens / processor), "loss": loss}

    answer(["update"] if update else [], do)


def ratios(rates: Rates) -> list[Figure]:
    """Return Headlight's speed by each other library's, to three digits.

    Headlight's is compiled where `torch.compile` works.
    """
    ours = rates.get("Headlight, compiled") or rates["Headlight"]
    figures = []
    for clock, suffix in enumerate(("", "_by_processor_time")):
        for name in OTHERS:
            pairs = zip(ours, rates[name], strict=True)
            faster = statistics.median(one[clock] / other[clock] for one, other in pairs)
            label, value = f"train_vs_{name.lower()}{suffix}", float(f"{faster:.3g}")
            figures.append(Figure(label, value, AIM, "x", least=True))
    return figures


def table(rates: Rates, losses: dict[str, float], given: argparse.Namespace) -> str:
    lines = [
        f"Medians of {given.rounds} rounds of {given.updates} updates; {given.threads} threads, "
        f"shape {given.shape}, float32.",
        "",
        "| | target tokens/s | smallest to largest | of processor time | loss at the end |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, speeds in rates.items():
        clock, processor = zip(*speeds, strict=True)
        lines.append(
            f"| {name} | {statistics.median(clock):,.0f} | {min(clock):,.0f} to {max(clock):,.0f} "
            f"| {statistics.median(processor):,.0f} | {losses[name]:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=4, help="of a turn")
    parser.add_argument("--threads", type=int, default=processors())
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--data", type=Path, help="folder with multi30k; default: the phrasebook")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--serve", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given)
        return
    if absent := missing("transformers", "accelerate", "joeynmt"):
        sys.exit(absent)
    options = ["--updates", given.updates, "--shape", given.shape]
    options += ["--data", given.data.resolve()] if given.data else []
    rates: Rates = {}
    losses = {}
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as ended:
        running = {}
        for name in CONTESTANTS:
            say(f"preparing {name} ...")
            running[name] = Process(name, __file__, Path(place), given.threads, *options)
            ended.callback(running[name].close)
        for name, _, done in rounds(running, ["update"], given.rounds + 1):
            rates.setdefault(name, []).append(done["rates"])
            losses[name] = done["loss"]
    rates = {name: rates[name][1:] for name in CONTESTANTS if name in rates}
    print(setting("transformers", "accelerate", "joeynmt"))
    print(table(rates, losses, given))
    report(ratios(rates), given.json)


if __name__ == "__main__":
    main()
