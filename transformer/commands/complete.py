"""`complete`: let a model of one stack go on with a text, or fill in its [MASK]."""

from __future__ import annotations

import argparse
import math

from transformer.commands.options import add_device


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--checkpoint", required=True, metavar="PATH")
    parser.add_argument(
        "--tokens", type=int, default=20, metavar="N", help="go on by at most N; default: 20"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="draw the tokens at random, from this seed"
    )
    parser.add_argument(
        "--top-k", type=int, default=5, metavar="N", help="guesses for each [MASK]; default: 5"
    )
    add_device(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.catalogue import open_tracer
    from transformer.errors import InputError
    from transformer.one_stack.tracer import StackModel
    from transformer.search.sampling import Sampling

    model = open_tracer(options.checkpoint, options.device)
    if not isinstance(model, StackModel):
        raise InputError(f"{options.checkpoint} has two stacks; use translate")
    sampling = None if options.seed is None else Sampling(seed=options.seed)
    if model.config.task == "fill":
        for each in model.guesses(model.trace(options.text), options.top_k):
            shares = zip(each.tokens, each.log_probs, strict=True)
            listed = ", ".join(f"{token} {100 * math.exp(value):.1f}%" for token, value in shares)
            print(f"{each.position} {each.token}: {listed}")
    elif model.config.task == "continue":
        print(model.trace(options.text, new_tokens=options.tokens, sampling=sampling).text)
    else:
        print(model.trace(options.text, sampling=sampling).text)
