"""Training with the paper's recipe (section 5), resumable, on any number of processes.

This module sets up text, tokenizer and folder; `transformer.training.trainer` runs the updates.
"""

import logging
from pathlib import Path

from transformer.device import resolve_device
from transformer.text.tokenizer import Tokenizer
from transformer.training.corpus import load_corpus, make_tokenizer
from transformer.training.distributed import World, repeatable
from transformer.training.download import fetch_missing
from transformer.training.objective import text_of
from transformer.training.recipe import Recipe
from transformer.training.run_folder import RunFolder
from transformer.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(
    recipe: Recipe, data: Path, out: Path, *, resume: bool = False, download: bool = False,
    device: str = "auto", tensorboard: bool = False, show_progress: bool = True,
) -> Path:  # fmt: skip
    """Run a recipe on the text under `data`, write a checkpoint to `out`, and return `out`.

    Args:
        resume: continue the run in `out`, or start a new one.
        download: first fetch the corpora that `data` lacks.
        device: "auto", "cpu" or "cuda".  tensorboard: also write TensorBoard events.

    Raises: `ConfigError` if `out` holds a run with another recipe or text, `DataError` if text is
        missing, `InputError` if the device is not available, `TrainingError` if the loss diverges.
    """
    device = resolve_device(device).type
    world, folder = World.join(device), RunFolder(out)
    try:
        if download and world.leads:
            fetch_missing(recipe.data.corpora, data, recipe.data.src, recipe.data.tgt)
        world.wait()
        corpus = text_of(recipe, load_corpus(recipe.data, data))
        if world.leads:
            folder.claim(recipe, corpus.fingerprint, resume=resume)
            make_tokenizer(recipe, corpus, folder.tokenizer)
        world.wait()
        tokenizer = Tokenizer.load(folder.tokenizer)
        trainer = Trainer(recipe, corpus, tokenizer, folder, device, world)
        if resume and folder.state.exists():
            trainer.resume()
        elif recipe.training.init:
            trainer.start_from(Path(recipe.training.init))
        try:
            with repeatable(device):
                return trainer.run(show_progress=show_progress, tensorboard=tensorboard)
        except KeyboardInterrupt:
            log.warning("stopped at update %d; --resume continues", trainer.progress.update)
            raise
    finally:
        world.leave()
