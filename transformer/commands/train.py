"""`train`: train a model."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.commands.options import add_device

if TYPE_CHECKING:
    from transformer.training.stages import Stage


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("recipe", metavar="PRESET_OR_TOML", help="a preset, or a TOML recipe")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    add_device(parser)
    parser.add_argument(
        "--download", action="store_true", help="download corpora that --data lacks"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.training.stages import load_stages

    stages = load_stages(options.recipe)
    from transformer.training.run import train

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    leads = os.environ.get("RANK", "0") == "0"  # of several processes, one speaks
    out = Path(options.out)
    for stage in stages:
        folder = out / stage.name
        recipe = stage.started_from(out)
        if recipe is not None:
            train(
                recipe,
                Path(options.data),
                folder,
                device=options.device,
                resume=options.resume,
                download=options.download,
                tensorboard=options.tensorboard,
                show_progress=not options.quiet,
            )
        elif leads and not folder.exists():
            _mix(stage, out, options)
        if leads:
            print(folder)


def _mix(stage: Stage, out: Path, options: argparse.Namespace) -> None:
    """Interpolate the weights of two earlier stages."""
    from transformer.evaluation.measure import Measuring
    from transformer.evaluation.publish import publish

    assert stage.mix is not None
    trained, other = (out / name for name in stage.mix)
    how = Measuring(Path(options.data), (4,), (0.6,), options.device)
    publish(trained, out / stage.name, how, mix=other, share=stage.share)
