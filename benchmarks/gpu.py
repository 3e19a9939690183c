"""Checks and figures on a GPU, in one run of at most ten minutes.

    PYTHONPATH=. python3 benchmarks/gpu.py --checkpoint DIR --out DIR [--seconds 540]

It needs torch, numpy, sentencepiece, safetensors and tqdm. Each figure is a line of JSON, printed
and added to `figures.jsonl` as soon as it is measured. The parts:

- same: token ids and attention maps on the GPU equal those of the CPU.
- decoding: greedy and beam search of the paper's base shape with random weights.
- training: `Trainer`'s updates of the base shape in bfloat16, as a share of the card's peak.

A failure is reported as a line, and the rest goes on. --tiny takes small sizes, for a dry run on a
CPU.
"""

import argparse
import contextlib
import itertools
import json
import math
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from transformer.config import ModelConfig, preset  # noqa: E402
from transformer.text.tokenizer import EOS_ID, Tokenizer  # noqa: E402

#: Shares of the time that each part may take of what is left for it and those after it.
PARTS = {"same": 1, "decoding": 2, "training": 4}
#: Dense bfloat16 operations a second at most, by a part of the card's name (NVIDIA's data sheets).
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
#: Largest difference of an attention weight on the two devices, both in float32.
TOLERANCE = 1e-4
SENTENCES = (
    "A man is riding a bicycle.", "Two dogs play in the snow near a red house.", "Hello!",
    "A little girl climbs into a wooden playhouse while her brother watches her from a tree.",
)  # fmt: skip


class OutOfTime(BaseException):
    """A part took longer than its share. No error, so that `except Exception` lets it pass."""


class Run:
    """The arguments, the device, and where figures go."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.out = given, given.out
        self.tiny: bool = given.tiny
        self.device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.until = time.monotonic() + given.seconds
        self.out.mkdir(parents=True, exist_ok=True)

    def say(self, part: str, figure: str, **values: Any) -> None:
        """Print a figure and add it to the file."""
        line = json.dumps({"part": part, "figure": figure, **values})
        print(line, flush=True)
        with open(self.out / "figures.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def median(self, task: Callable[[], object]) -> tuple[float, int]:
        """Return the median milliseconds of a task, and how often it ran after a first time."""
        task()
        times: list[float] = []
        while not times or (not self.tiny and len(times) < 20 and sum(times) < 2):
            self.wait()
            began = time.perf_counter()
            task()
            self.wait()
            times.append(time.perf_counter() - began)
        return round(1e3 * statistics.median(times), 2), len(times)

    @contextlib.contextmanager
    def trying(self, part: str, figure: str) -> Iterator[None]:
        """Report a failure and go on."""
        try:
            yield
        except (Exception, SystemExit) as error:  # noqa: BLE001
            self.say(part, figure, error=f"{type(error).__name__}: {error}"[:1500])

    @contextlib.contextmanager
    def part(self, name: str, seconds: float) -> Iterator[None]:
        """Run a part for at most so many seconds; report its failure and go on."""

        def stop(*_: object) -> None:
            raise OutOfTime(f"{seconds:.0f} s were not enough")

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1), 5)
        began = time.monotonic()
        try:
            with self.trying(name, "failed"):
                yield
        except OutOfTime as error:
            self.say(name, "failed", error=str(error))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.say(name, "took", seconds=round(time.monotonic() - began, 1))


class Numbers(Tokenizer):
    """A tokenizer whose texts are ids with spaces between them."""

    byte_ids: frozenset[int] = frozenset()

    def __init__(self, size: int) -> None:
        self.pieces = tuple(map(str, range(size)))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Read the ids of each text."""
        return [list(map(int, text.split())) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Write ids."""
        return " ".join(map(str, ids))


def card(run: Run) -> None:
    """Name the device, and measure its speed at a large product and a large copy."""
    if run.device != "cuda":
        run.say("card", "name", name="cpu", torch=torch.__version__)
        return
    about = torch.cuda.get_device_properties(0)
    memory = round(about.total_memory / 2**30)
    run.say("card", "name", name=about.name, gib=memory, torch=torch.__version__)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ms, _ = run.median(lambda: [a @ b for _ in range(10)])
    run.say("card", "bfloat16 product of 8192", tflops=round(20 * 8192**3 / ms / 1e9))
    ms, _ = run.median(lambda: a.copy_(b))
    run.say("card", "copy", gb_per_second=round(2 * a.numel() * 2 / ms / 1e6))


def same(run: Run) -> None:
    """Compare token ids and attention maps with the CPU's, by both executions."""
    from transformer.hooks import Record
    from transformer.translator import Translator

    here = Translator.load(run.given.checkpoint, device="cpu")
    there = Translator.load(run.given.checkpoint, device=run.device)
    sentences = here.tokenizer.encode_many(SENTENCES)
    ways = (("fast", None), ("reference", Record(())))
    for (name, hooks), beam in itertools.product(ways, (1, 4)):
        equal, gap = True, 0.0
        ours, theirs = (
            each.traces(sentences, beam, max_length=60, hooks=hooks) for each in (here, there)
        )
        for one, other in zip(ours, theirs, strict=True):
            equal &= one.predicted_ids == other.predicted_ids
            for kind in there.kinds if equal else ():
                gap = max(gap, float(abs(one.attention(kind) - other.attention(kind)).max()))
        run.say(
            "same", f"{name}, beam {beam}", ids_equal=equal, largest_difference=gap,
            tolerance=TOLERANCE, passed=equal and gap <= TOLERANCE,
        )  # fmt: skip


def decoding(run: Run) -> None:
    """Time greedy and beam search of the base shape, one sentence and a batch."""
    from transformer.model import Transformer
    from transformer.translator import Translator

    steps, many = (4, 3) if run.tiny else (24, 100)
    size = 64 if run.tiny else 32_000
    config = preset("tiny" if run.tiny else "base", vocab_size=size, output_bias=True)
    torch.manual_seed(0)
    model = Transformer(config).eval().requires_grad_(False)
    assert model.generator.bias is not None
    model.generator.bias[EOS_ID] = -1e4  # every translation reaches the limit
    translator = Translator(model, Numbers(size), device=run.device)
    rng = random.Random(0)
    length = 5 if run.tiny else 20
    sources = [
        [rng.randrange(4, size) for _ in range(rng.randint(length // 2, 3 * length // 2))]
        for _ in range(many)
    ]
    sources[0] = sources[0][:1] * length

    searches = itertools.product((1, many), ((1, False), (4, False), (4, True)))
    for count, (beam, recorded) in searches:
        what = f"{count} sentences, beam {beam}{', recorded' * recorded}"
        method = translator.traces if recorded else translator.translate
        ms, times = run.median(lambda: method(sources[:count], beam, max_length=steps))  # noqa: B023
        run.say("decoding", what, ms=ms, times=times, steps=steps)


def operations(config: ModelConfig, src: NDArray[np.int64], tgt: NDArray[np.int64]) -> float:
    """Count the floating-point operations of an update: its matrix products, real tokens only.

    A multiplication and an addition are two. The backward pass counts twice the forward one;
    attention to later positions, padding, and everything but matrix products do not count.

    Args: src, tgt: tokens of each pair, `</s>` or `<s>` included.
    """
    d, feed = config.d_model, 2 * config.d_model * config.d_ff
    encoder = config.n_encoder_layers * ((4 * d * d + feed) * src + 2 * d * src * src)
    decoder = config.n_decoder_layers * (
        (6 * d * d + feed) * tgt + 2 * d * d * src  # the source's keys and values
        + d * tgt * (tgt + 1) + 2 * d * tgt * src
    )  # fmt: skip
    output = d * config.vocab_size * tgt
    return 3 * 2 * float((encoder + decoder + output).sum())


def training(run: Run) -> None:
    """Time the trainer's own updates on random pairs, eager and compiled."""
    from transformer.training.data import Corpus
    from transformer.training.distributed import World, compiled, repeatable
    from transformer.training.recipe import Recipe
    from transformer.training.run_folder import RunFolder
    from transformer.training.trainer import Trainer

    size, tokens, n_batches = (64, 200, 4) if run.tiny else (37_000, 25_000, 120)
    rng = np.random.default_rng(0)

    def side(lengths: NDArray[np.int64]) -> list[str]:
        return [" ".join(map(str, rng.integers(4, size, each))) for each in lengths]

    # Lengths as in WMT's English and German: 27 tokens on average, some over 80.
    n_pairs = n_batches * tokens // 25
    src = rng.lognormal(math.log(24), 0.55, n_pairs).clip(2, 100).astype(int)
    tgt = (src * rng.uniform(0.8, 1.25, n_pairs)).clip(2, 100).astype(int)
    corpus = Corpus(tuple(zip(side(src), side(tgt), strict=True)))
    recipe = Recipe.from_dict({
        "model": {"preset": "tiny" if run.tiny else "base", "vocab_size": size},
        "tokenizer": {"vocab_size": size},
        "training": {"batch_tokens": tokens, "precision": "bfloat16"},
    })  # fmt: skip

    folder, pieces = RunFolder(Path(tempfile.gettempdir()) / "unused"), Numbers(size)
    trained = Trainer(recipe, corpus, pieces, folder, run.device, World())
    eager = trained.objective
    for compiles, repeats in ((False, False), (True, False), (True, True), (False, True)):
        if compiles and run.tiny:
            continue
        # `train` runs in `repeatable`.
        name = ("compiled" if compiles else "eager") + ", repeatable" * repeats
        trained.objective = eager
        with run.trying("training", f"{name}, failed"), contextlib.ExitStack() as stack:
            if repeats:
                stack.enter_context(repeatable(run.device))
            if compiles:
                began = time.monotonic()
                trained.objective = compiled(eager, trained._try_out, show_progress=False)
                took, works = time.monotonic() - began, trained.objective is not eager
                run.say("training", f"{name}, to compile", seconds=round(took, 1), works=works)
            _measure(run, name, trained)


def _measure(run: Run, name: str, trained: Any) -> None:
    """Time updates, and how long the GPU works at each of six."""
    from torch.profiler import ProfilerActivity, profile

    card = torch.cuda.get_device_name() if run.device == "cuda" else ""
    peak = next((peak for each, peak in PEAKS.items() if each in card), None)
    lengths = [np.array([len(ids) + 1 for ids in side]) for side in trained._encoded]
    batches, window, warm = trained._batches(0), *((0.0, 1) if run.tiny else (10.0, 4))
    first, *_ = [trained.update(rows, 1e-4)[0] for rows in batches[:warm]]
    began, flops, tokens, padded, updates = time.perf_counter(), 0.0, np.zeros(2), 0, 0
    while not updates or time.perf_counter() - began < window:
        rows = batches[updates % len(batches)]
        last, updates = trained.begin_update(rows, 3e-4), updates + 1
        src, tgt = (each[rows] for each in lengths)
        flops += operations(trained.config, src, tgt)
        tokens += src.sum(), tgt.sum()
        padded += len(rows) * (src.max() + tgt.max())
        if updates % 50 == 0:  # as often as in training
            trained.read(last)
    loss = trained.read(last)[0]
    spent = time.perf_counter() - began
    gib = round(torch.cuda.max_memory_allocated() / 2**30, 1) if card else None
    run.say(
        "training", name, gib=gib, updates=updates, ms_per_update=round(1e3 * spent / updates, 2),
        source_tokens_per_second=round(tokens[0] / spent),
        target_tokens_per_second=round(tokens[1] / spent), tflops=round(flops / spent / 1e12, 1),
        share_of_peak=peak and round(flops / spent / peak, 4),
        real_tokens=round(tokens.sum() / padded, 3), loss=[round(first, 3), round(loss, 3)],
    )  # fmt: skip
    if run.device == "cuda":
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for rows in batches[:6]:
                last = trained.begin_update(rows, 3e-4)
            trained.read(last)
        busy = sum(each.self_device_time_total for each in profiler.key_averages()) / 6e3
        run.say("training", f"{name}, GPU alone", ms_per_update=round(busy, 2))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for figures")
    parser.add_argument("--seconds", type=float, default=540, help="of all parts together")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="default: all")
    parser.add_argument("--checkpoint", default="checkpoints/multi30k-en-de", help="for `same`")
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    given = parser.parse_args(arguments)
    run = Run(given)
    tasks = {"same": same, "decoding": decoding, "training": training}
    names = given.only or [*PARTS]
    with run.part("card", 30):
        card(run)
    for index, name in enumerate(names):
        left = run.until - time.monotonic()
        share = PARTS[name] / sum(PARTS[each] for each in names[index:])
        with run.part(name, left * share):
            tasks[name](run)


if __name__ == "__main__":
    main()
