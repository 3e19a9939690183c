"""Fixtures for the command line, training text, and `transformers` models."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from tests.tiny_models import CONFIGS, random_model
from transformer.__main__ import main
from transformer.model import Transformer
from transformer.trace.records import Trace
from transformer.training.data import split_by_source
from transformer.types import ATTENTION_KINDS


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def refused(self) -> str:
        """Return the error line of a command that did nothing else."""
        assert (self.status, self.out, self.err.count("\n")) == (2, "", 1)
        return self.err


Command = Callable[..., Ran]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command line in this process, as in `command("info", folder)`."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as stop:  # how argparse ends
            status = int(stop.code or 0)
        return Ran(status, *capfd.readouterr())

    return run


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Make sums round equally in this process and in its children."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Transformer:
    """Random models of every shape, read-only."""
    return random_model(CONFIGS[request.param], seed=4)


def check_trace(trace: Trace) -> None:
    """Check the properties of every trace."""
    for kind in ATTENTION_KINDS:
        maps = trace.attention(kind)
        queries, keys = trace.axis_tokens(kind)
        assert maps.dtype == np.float32 and not maps.flags.writeable
        assert maps.shape[2:] == (len(queries), len(keys))
        np.testing.assert_allclose(maps.sum(-1), np.ones(maps.shape[:-1]), atol=1e-5)
    assert not np.triu(trace.decoder_self, 1).any()
    n = len(trace.predicted_ids)
    assert n == len(trace.tgt_ids) == len(trace.tgt_tokens) == len(trace.predicted_tokens)
    assert n == len(trace.log_probs) == len(trace.entropy) == len(trace.top_tokens)
    assert trace.top_ids.shape == trace.top_log_probs.shape
    for t, token in enumerate(trace.predicted_ids):
        found = trace.top_log_probs[t][trace.top_ids[t] == token]
        np.testing.assert_allclose(found, trace.log_probs[t], atol=1e-5)


@pytest.fixture
def data(tmp_path: Path, one_thread: None) -> Path:
    return parallel_text(tmp_path / "data")


def parallel_text(folder: Path) -> Path:
    rng = random.Random(0)
    folder.mkdir()
    words = ["anna", "ben", "cara", "sees", "hears", "a", "dog", "cat", "now", "here"]
    rows = [[rng.choice(words) for _ in range(rng.randint(1, 6))] for _ in range(3000)]
    pairs = [(" ".join(row) + " 81", " ".join(row[::-1])) for row in rows]
    train, val, _ = split_by_source(pairs, (0.985, 0.005, 0.01))
    for side, end in enumerate(("en", "de")):
        lines = [pair[side] for pair in (*train[:81], *val[:6])]
        (folder / f"pairs.{end}").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Models of every `transformers` family by name, built on demand."""
    from tests.transformer.models.huggingface.models import Pair, make_pair

    class Made(dict[str, Pair]):
        def __missing__(self, name: str) -> Pair:
            return self.setdefault(name, make_pair(name, folder))

    folder = tmp_path_factory.mktemp("huggingface")
    return Made()
