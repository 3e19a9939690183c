"""Weight files of every kind, overwritten in place while they load, many times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transformer.importers.test_overwritten import WEIGHTS, check_survival
from transformer.text.tokenizer import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_process_survives(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    check_survival(tuple(WEIGHTS), 8, tmp_path, tiny_tokenizer)
