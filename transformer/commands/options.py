"""Options that several commands share: the checkpoint, the decoding, the device."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.translator import Translator
    from transformer.types import Report


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add `--checkpoint` and `--device`."""
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="a checkpoint folder")
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add `--device`."""
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda; default: auto")


def add_beam(parser: argparse.ArgumentParser) -> None:
    """Add `--beam` and `--alpha`, which default to the checkpoint's own."""
    parser.add_argument(
        "--beam", type=int, metavar="N",
        help="beam size, 1 is greedy; default: the checkpoint's, see info",
    )  # fmt: skip
    parser.add_argument(
        "--alpha", type=float, metavar="A",
        help="exponent of the length penalty; default: the checkpoint's, see info",
    )  # fmt: skip


def add_grid(parser: argparse.ArgumentParser) -> None:
    """Add `--beam` and `--alpha`, the settings from which a default decoding is chosen."""
    parser.add_argument(
        "--beam", type=int, nargs="+", metavar="N", default=[1, 4, 5, 8],
        help="beam sizes to try on the validation text; default: 1 4 5 8",
    )  # fmt: skip
    parser.add_argument(
        "--alpha", type=float, nargs="+", metavar="A", default=[0.0, 0.3, 0.6, 1.0, 1.4, 1.8, 2.0],
        help="length penalties to try; default: 0 0.3 0.6 1 1.4 1.8 2",
    )  # fmt: skip


def add_steering(parser: argparse.ArgumentParser) -> None:
    """Add `--prefix`, and `--sample` with its settings."""
    parser.add_argument("--prefix", metavar="TEXT", help="begin every translation with this text")
    parser.add_argument(
        "--sample", action="store_true", help="sample tokens instead of searching for the best"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T",
        help="with --sample: below 1 sharpens, above 1 flattens; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--sample-top-k", type=int, metavar="K",
        help="with --sample: only the K most probable tokens; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--top-p", type=float, metavar="P",
        help="with --sample: only the nucleus of probability P; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, metavar="N", help="with --sample: the random seed; default: 0"
    )


def steering(options: argparse.Namespace) -> dict[str, Any]:
    """Return the decoding options as keyword arguments of `Translator.translate` and `trace`."""
    from transformer.errors import InputError
    from transformer.search.inputs import checked_sampling

    settings = {
        "--temperature": options.temperature,
        "--sample-top-k": options.sample_top_k,
        "--top-p": options.top_p,
        "--seed": options.seed,
    }
    first = next((flag for flag, value in settings.items() if value is not None), None)
    if first is not None and not options.sample:
        raise InputError(f"{first} {settings[first]} needs --sample")
    sampling = None
    if options.sample:
        sampling = checked_sampling(
            1.0 if options.temperature is None else options.temperature,
            options.sample_top_k or 0,
            1.0 if options.top_p is None else options.top_p,
            options.seed or 0,
        )
    return {
        "beam_size": options.beam,
        "alpha": options.alpha,
        "prefix": options.prefix,
        "sampling": sampling,
    }


def listed(texts: Iterable[str], most: int = 20) -> str:
    """Quote the texts, each once and at most `most` of them, in one line."""
    each = [repr(text) for text in dict.fromkeys(texts)]
    return ", ".join(each[:most]) + (" …" if len(each) > most else "")


@contextmanager
def progress_bar(**settings: Any) -> Iterator[Report]:
    """Show a bar on standard error; yield the callback that moves it. `settings` are tqdm's."""
    from tqdm import tqdm

    with tqdm(file=sys.stderr, **settings) as bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report


@contextmanager
def steps_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for work of several steps; yield the callback, given a step's name too."""
    from tqdm import tqdm

    with tqdm(delay=1, disable=None, file=sys.stderr) as bar:

        def report(what: str, done: int, total: int) -> None:
            bar.set_description(what, refresh=False)
            bar.total, bar.n = total, done
            bar.refresh()

        yield report


def load(options: argparse.Namespace) -> Translator:
    """Load the translator that the options of `add_checkpoint` name."""
    from transformer.translator import Translator

    return Translator.load(options.checkpoint, device=options.device)
