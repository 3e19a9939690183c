"""Weight files that are overwritten in place while they load, each in a process of its own.

If a file is mapped into memory, that ends the process with SIGBUS, and all visitors' sessions.
"""

import itertools
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.forks import forked
from tests.tiny_models import random_model
from tests.transformer.damage import torch_file
from tests.transformer.huggingface import models as huggingface
from tests.transformer.importers.foreign import fairseq
from transformer.catalogue import open_tracer
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.importers.registry import FORMATS
from transformer.text.tokenizer import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")

WEIGHTS = {
    "own": "model.safetensors", "own-torch": "model.pt", "marian": "model.safetensors",
    "marian-torch": "pytorch_model.bin", "hf": "model.safetensors", "hf-torch": "pytorch_model.bin",
    "fairseq": "checkpoint_best.pt",
}  # fmt: skip
#: Kinds whose tensors are all read into memory before the first is used.
AT_ONCE = {kind for kind, name in WEIGHTS.items() if not name.endswith(".safetensors")} | {"marian"}


def make(kind: str, folder: Path, tokenizer: Tokenizer) -> None:
    if kind.startswith("own"):
        config = ModelConfig(
            vocab_size=tokenizer.vocab_size, d_model=128, n_heads=4, d_ff=256, n_encoder_layers=3,
            n_decoder_layers=2,
        )  # fmt: skip
        save_checkpoint(folder, random_model(config), tokenizer)
    elif kind.startswith("marian"):
        huggingface.make_folder(folder, "separate vocabularies", d_model=96)
    elif kind.startswith("hf"):
        huggingface.make("t5", folder)
    else:
        fairseq(folder, "pre-norm, nothing shared")
    if kind.endswith("torch"):
        torch_file(lambda state: state, WEIGHTS[kind])(folder)


def load(kind: str, path: Path) -> str:
    made = path.parent.parent / "made"
    try:
        if kind in FORMATS:
            FORMATS[kind].convert(path.parent, made)
        else:
            open_tracer(path.parent, "cpu")
    except CheckpointError as error:
        if path.name not in str(error) and "changes while it is read" not in str(error):
            raise
        return "refused"
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return "whole"


def survive(kind: str, path: Path, trials: int) -> None:
    """Load a folder whose weights are cut short at a later tensor each time, then overwritten."""
    torch.set_num_threads(1)
    whole, real = path.read_bytes(), torch.isfinite  # looks at each tensor that is read
    ends: Counter[str] = Counter()
    for cut_at in (1, 2, 7):
        calls = itertools.count(1)

        def finite(tensor: torch.Tensor, at: int = cut_at, calls: Any = calls) -> torch.Tensor:
            if next(calls) == at:
                os.truncate(path, 0)
            return real(tensor)

        torch.isfinite = finite
        ends[load(kind, path)] += 1
        torch.isfinite = real
        path.write_bytes(whole)
    over = threading.Event()

    def overwrite() -> None:
        while not over.is_set():
            with open(path, "wb", buffering=0) as file:
                for begin in range(0, len(whole), 65536):
                    file.write(whole[begin : begin + 65536])
            over.wait(0.02)

    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        ends.update(load(kind, path) for _ in range(trials))
    finally:
        over.set()
        writer.join()
    ends[load(kind, path)] += 1
    os.write(1, json.dumps(ends).encode())


def check_survival(
    kinds: Sequence[str], trials: int, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    """Load models of these kinds in a process while their weights change under it."""
    for kind in kinds:
        folder = tmp_path / kind / "model"
        folder.parent.mkdir()
        make(kind, folder, tiny_tokenizer)
        work = partial(survive, kind.partition("-")[0], folder / WEIGHTS[kind], trials)
        status, said = forked(work, tmp_path / "log")
        assert status == 0, f"{status}: {said[-2000:]}"
        counts = json.loads(said)
        assert sum(counts.values()) == 3 + trials + 1 and counts["whole"] >= 1
        assert counts.get("refused", 0) >= (0 if kind in AT_ONCE else 3)


def test_the_process_survives(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    check_survival(("own",), 1, tmp_path, tiny_tokenizer)
