"""`snapshots`: keep the snapshots of a run beside a checkpoint, to look at its training."""

from __future__ import annotations

import argparse
from pathlib import Path

from transformer.commands.options import progress_bar


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("run_folder", metavar="RUN", help="the --out folder of train")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    parser.add_argument(
        "--checkpoint", required=True, metavar="PATH", help="the checkpoint to keep them beside"
    )


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.checkpoint.snapshots import read_history
    from transformer.training.snapshots import keep_snapshots

    folder = Path(options.checkpoint)
    with progress_bar(unit=" snapshots", delay=1, disable=None) as show:
        file = keep_snapshots(Path(options.run_folder), folder, Path(options.data), progress=show)
    for each in read_history(folder).snapshots:
        print(f"{each.updates:>9,} updates  {each.val_nll:6.3f} nats per token")
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
