"""Weight files that are overwritten in place while they load, each in a process of its own.

If a file is mapped into memory, that ends the process with SIGBUS, and all visitors' sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.tiny_models import random_model
from tests.transformer.huggingface import models as huggingface_models
from tests.transformer.huggingface.models import make_folder
from tests.transformer.importers.foreign import fairseq
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")

#: Loads a folder again and again, and cuts its weights short at a later tensor each time; then
#: loads it while another thread copies the file over itself.
CHILD = """
import gc, itertools, json, os, shutil, sys, threading
from pathlib import Path
import torch
from transformer.catalogue import open_tracer
from transformer.errors import CheckpointError
from transformer.importers.registry import FORMATS

real = torch.isfinite  # looks at each tensor that is read

def load(kind, path, ends):
    made = path.parent.parent / "made"
    try:
        if kind in FORMATS:
            FORMATS[kind].convert(path.parent, made)
        else:
            open_tracer(path.parent, "cpu")
        ends["whole"] += 1
    except CheckpointError as error:
        assert path.name in str(error) or "changes while it is read" in str(error), error
        ends["refused"] += 1
    shutil.rmtree(made, ignore_errors=True)
    gc.collect()

def trial(kind, path):
    whole = path.parent.parent / "whole"
    shutil.copyfile(path, whole)
    ends = {"whole": 0, "refused": 0}
    for cut_at in (1, 2, 7):
        calls = itertools.count(1)
        def finite(tensor):
            if next(calls) == cut_at:
                os.truncate(path, 0)
            return real(tensor)
        torch.isfinite = finite
        load(kind, path, ends)
        torch.isfinite = real
        shutil.copyfile(whole, path)
    over = threading.Event()
    def overwrite():
        data = whole.read_bytes()
        while not over.is_set():
            with open(path, "wb", buffering=0) as file:
                for begin in range(0, len(data), 65536):
                    file.write(data[begin : begin + 65536])
            over.wait(0.02)
    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        for _ in range(int(sys.argv[1])):
            load(kind, path, ends)
    finally:
        over.set()
        writer.join()
    load(kind, path, ends)
    return ends

for each in sys.argv[2:]:
    path = Path(each)
    kind = path.parent.parent.name
    print(kind, json.dumps(trial(kind.partition("-")[0], path)), flush=True)
"""

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
        make_folder(folder, "separate vocabularies", d_model=96)
    elif kind.startswith("hf"):
        folder.mkdir()
        huggingface_models.t5(folder)
    else:
        fairseq(folder, "pre-norm, nothing shared")
    if kind.endswith("torch"):
        state = safetensors.torch.load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save(state, folder / WEIGHTS[kind])


def check_survival(
    kinds: Sequence[str], trials: int, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    """Load models of these kinds in a process while their weights change under it."""
    for kind in kinds:
        (tmp_path / kind).mkdir()
        make(kind, tmp_path / kind / "model", tiny_tokenizer)
    paths = [
        str(tmp_path / kind / "model" / name) for kind, name in WEIGHTS.items() if kind in kinds
    ]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(trials), *paths], capture_output=True, text=True,
        cwd=Path(__file__).parents[3], timeout=900,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode} after {done.stdout}: {done.stderr[-2000:]}"
    ends = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert list(ends) == list(kinds)
    for kind, said in ends.items():
        counts = json.loads(said)
        assert counts["whole"] + counts["refused"] == 3 + trials + 1
        assert counts["whole"] >= 1
        assert counts["refused"] >= (0 if kind in AT_ONCE else 3)


def test_the_process_survives(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    check_survival(("own",), 1, tmp_path, tiny_tokenizer)
