"""Options that several commands share: which checkpoint, how to search, how to steer."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.translator import Translator


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """The checkpoint, the device and the beam."""
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="a checkpoint folder")
    parser.add_argument("--beam", type=int, default=4, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument(
        "--alpha", type=float, default=0.6, metavar="A", help="exponent of the length penalty"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")


def add_steering(parser: argparse.ArgumentParser) -> None:
    """A prefix, and sampling in place of the beam."""
    parser.add_argument("--prefix", metavar="TEXT", help="what the translation has to begin with")
    parser.add_argument(
        "--sample", action="store_true", help="draw tokens at random in place of the best"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="below 1 sharper, above 1 flatter; default 1"
    )
    parser.add_argument(
        "--sample-top-k", type=int, metavar="K", help="draw among the K most probable; default all"
    )
    parser.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the nucleus of probability P; default 1"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the random draws; default 0")
    parser.set_defaults(beam=None)


def steering(options: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of `Translator.translate` and `trace` for the decoding options."""
    from transformer.errors import InputError
    from transformer.search.inputs import checked_sampling

    asked = {
        "--temperature": options.temperature,
        "--sample-top-k": options.sample_top_k,
        "--top-p": options.top_p,
        "--seed": options.seed,
    }
    given = next((flag for flag, value in asked.items() if value is not None), None)
    if given is not None and not options.sample:
        raise InputError(f"{given} {asked[given]} needs --sample")
    sampling, beam = None, 4
    if options.sample:
        beam = 1
        sampling = checked_sampling(
            1.0 if options.temperature is None else options.temperature,
            options.sample_top_k or 0,
            1.0 if options.top_p is None else options.top_p,
            options.seed or 0,
        )
    return {
        "beam_size": beam if options.beam is None else options.beam,
        "alpha": options.alpha,
        "prefix": options.prefix,
        "sampling": sampling,
    }


def listed(unknown: Iterable[str], most: int = 20) -> str:
    """Characters that a vocabulary does not hold, each once, as a line may show them."""
    each = [repr(text) for text in dict.fromkeys(unknown)]
    return ", ".join(each[:most]) + (" …" if len(each) > most else "")


def load(options: argparse.Namespace) -> Translator:
    """The translator that the options of `add_decoding` name."""
    from transformer.translator import Translator

    return Translator.load(options.checkpoint, device=options.device)
