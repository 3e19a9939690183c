"""`trace`: record every attention map of one sentence."""

from __future__ import annotations

import argparse
import sys

from transformer.commands.options import (
    add_beam,
    add_checkpoint,
    add_steering,
    listed,
    load,
    steering,
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_checkpoint(parser)
    add_beam(parser)
    add_steering(parser)
    parser.add_argument("--src", required=True, metavar="TEXT", help="the sentence")
    parser.add_argument(
        "--tgt", metavar="TEXT", help="follow this translation instead of searching for one"
    )
    parser.add_argument(
        "--top-k",
        type=int,
        default=10,
        metavar="N",
        help="alternatives recorded per step; default: 10",
    )
    parser.add_argument(
        "--out", required=True, metavar="FILE.npz", help="where to write the arrays"
    )


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.arrays.trace_file import npz_path, save_arrays
    from transformer.errors import InputError
    from transformer.search.reader import unknown_text

    if options.tgt is not None and options.sample:
        raise InputError("--sample cannot be combined with --tgt, which is followed as it is")
    path = npz_path(options.out)
    translator = load(options)
    trace = translator.trace(
        options.src,
        target=options.tgt,
        top_k=options.top_k,
        **steering(options),
    )
    save_arrays(trace, path)
    unknown = unknown_text(translator.tokenize(options.src))
    if options.tgt is not None:
        unknown += unknown_text(translator.tokenize_target(options.tgt))
    if unknown:
        print(f"the model does not know {listed(unknown)}", file=sys.stderr)
    print(f"{trace.text}")
    print(f"{path}: {len(trace.src_tokens)} source tokens, {len(trace.tgt_tokens)} steps")
