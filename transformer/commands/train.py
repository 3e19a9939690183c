"""Commands for training: `train`, and `data` to fetch the text."""

import logging
import os
import random
from pathlib import Path
from typing import Annotated

from transformer.commands.options import Data, Device, Quiet
from transformer.training.recipe import DataRecipe, load_stages


def train(
    recipe: Annotated[str, "PRESET_OR_TOML", "a preset, or a TOML recipe"], *, data: Data,
    out: Annotated[Path, "DIR", "folder of the run"],
    resume: Annotated[bool, "continue a stopped run"] = False,
    tensorboard: Annotated[bool, "also write TensorBoard events"] = False, device: Device = "auto",
    download: Annotated[bool, "download corpora that --data lacks"] = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Train a model."""
    stages = load_stages(recipe)
    from transformer.training import run

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    leads = os.environ.get("RANK", "0") == "0"  # only one of several processes prints
    for stage in stages:
        folder = out / stage.name
        if (settings := stage.started_from(out)) is not None:
            run.train(
                settings, data, folder, device=device, resume=resume, download=download,
                tensorboard=tensorboard, show_progress=not quiet,
            )  # fmt: skip
        elif leads and not folder.exists():
            from transformer.evaluation.measure import Measuring
            from transformer.evaluation.publish import publish

            assert stage.mix is not None
            trained, other = (out / name for name in stage.mix)
            how = Measuring(data, (4,), (0.6,), device)
            publish(trained, folder, how, mix=other, share=stage.share)
        if leads:
            print(folder)


def data(
    corpus: Annotated[str, None, "multi30k, tatoeba or gum; with --sample, any corpus of a recipe"],
    *,
    out: Annotated[Path, "DIR", "destination, for `train --data DIR`"],
    sample: Annotated[int | None, "N", "instead: show N training pairs of a corpus in DIR"] = None,
    src: Annotated[str, "CODE", "with --sample"] = "en",
    tgt: Annotated[str, "CODE", "the language besides English"] = "de",
    home: Annotated[str | None, "URL", "address of a mirror"] = None,
    sha256: Annotated[str | None, "HEX", "tatoeba: expected checksum of the archive"] = None,
    quiet: Quiet = False,
) -> None:
    """Download a public corpus to train on, or sample one."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if sample is None:
        from transformer.training.download import fetch

        print(fetch(corpus, out, tgt=tgt, home=home, sha256=sha256, show_progress=not quiet))
        return
    from transformer.training.corpus import load_corpus

    pairs = load_corpus(DataRecipe((corpus,), src, tgt), out).train
    for pair in random.sample(pairs, min(max(sample, 0), len(pairs))):
        print(*pair, sep="\t")
