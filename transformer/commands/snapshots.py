"""`snapshots`: keep a run's snapshots beside a checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from transformer.commands.options import progress_bar


def add(commands: Any) -> None:
    """Add `snapshots` to the subparsers."""
    snapshots = commands.add_parser(
        "snapshots", help="keep the snapshots of a run beside a checkpoint, to look at its training"
    )
    snapshots.add_argument("run_folder", metavar="RUN", help="the --out folder of train")
    snapshots.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    snapshots.add_argument(
        "--checkpoint", required=True, metavar="PATH", help="the checkpoint to keep them beside"
    )
    snapshots.set_defaults(run=_keep)


def _keep(options: argparse.Namespace) -> None:
    from transformer.checkpoint.snapshots import read_history
    from transformer.training.snapshots import keep_snapshots

    folder = Path(options.checkpoint)
    with progress_bar(unit=" snapshots", delay=1, disable=None) as show:
        file = keep_snapshots(Path(options.run_folder), folder, Path(options.data), progress=show)
    for each in read_history(folder).snapshots:
        print(f"{each.updates:>9,} updates  {each.val_nll:6.3f} nats per token")
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
