"""`trace`: every attention map of one sentence, as a file of arrays."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from transformer.commands.options import (
    add_beam,
    add_checkpoint,
    add_steering,
    listed,
    load,
    steering,
)


def add(commands: Any) -> None:
    """Add `trace` to the subparsers."""
    trace = commands.add_parser("trace", help="record every attention map of one sentence")
    add_checkpoint(trace)
    add_beam(trace)
    add_steering(trace)
    trace.add_argument("--src", required=True, metavar="TEXT", help="the sentence")
    trace.add_argument(
        "--tgt", metavar="TEXT", help="follow this translation instead of searching for one"
    )
    trace.add_argument(
        "--top-k",
        type=int,
        default=10,
        metavar="N",
        help="alternatives recorded per step; default: 10",
    )
    trace.add_argument("--out", required=True, metavar="FILE.npz", help="where to write the arrays")
    trace.set_defaults(run=_trace)


def _trace(options: argparse.Namespace) -> None:
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
