"""Text to train on."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Round sums alike in this process and in those that it starts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data(tmp_path: Path, one_thread: None) -> Path:
    """A folder with two parallel files for training and two for validation."""
    return parallel_text(tmp_path / "data")


def parallel_text(folder: Path) -> Path:
    """Write two parallel files for training and two for validation."""
    rng = random.Random(0)
    folder.mkdir()
    words = ["anna", "ben", "cara", "sees", "hears", "a", "dog", "cat", "now", "here"]
    for name, n in (("pairs", 81), ("held_out", 6)):
        rows = [[rng.choice(words) for _ in range(rng.randint(1, 6))] for _ in range(n)]
        (folder / f"{name}.en").write_text("".join(" ".join(row) + f" {n}\n" for row in rows))
        (folder / f"{name}.de").write_text("".join(" ".join(row[::-1]) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model of every family of the `transformers` library by name, made when asked for."""
    from tests.transformer.huggingface.models import Pair, make_pair

    class Made(dict[str, Pair]):
        def __missing__(self, name: str) -> Pair:
            return self.setdefault(name, make_pair(name, folder))

    folder = tmp_path_factory.mktemp("huggingface")
    return Made()
