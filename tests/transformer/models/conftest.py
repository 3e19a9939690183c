"""One model for each reader, and a limit on memory."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch

from tests.tiny_models import random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.importers.registry import FORMATS
from transformer.text.tokenizer import Tokenizer


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    """One model for each reader."""
    pytest.importorskip("transformers")
    from tests.transformer.checkpoint.test_shards import split
    from tests.transformer.huggingface import models as huggingface_models
    from tests.transformer.importers.foreign import fairseq, joeynmt
    from tests.transformer.importers.models import make_folder

    root = tmp_path_factory.mktemp("whole")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=24, n_heads=3, d_ff=40, n_encoder_layers=2,
        n_decoder_layers=1,
    )  # fmt: skip
    save_checkpoint(root / "own", random_model(config), tiny_tokenizer)
    make_folder(root / "marian", "separate vocabularies")
    FORMATS["marian"].convert(root / "marian", root / "table")
    split(Path(shutil.copytree(root / "marian", root / "shards")), safetensors.torch.save_file)
    joeynmt(root / "joeynmt", "pre-norm, other ids")
    joeynmt(root / "joeynmt merges", "post-norm, separate")
    fairseq(root / "fairseq", "post-norm, all shared")
    fairseq(root / "fairseq apart", "pre-norm, nothing shared")
    (root / "hf").mkdir()
    huggingface_models.t5(root / "hf")
    huggingface_models.bart(root / "bart")
    return root


@pytest.fixture(autouse=True)
def _no_bombs() -> Iterator[None]:
    """Make allocating 8 GiB more an error, so that the machine survives.

    More than what is taken already: tests before these leave address space behind (stacks of
    threads, mapped weights), and a limit below that would fail the next allocation of anything.
    """
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + 8 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
