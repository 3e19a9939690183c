"""32 visitors at once, and 1,000 interactions: all see their own, and caches are bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages.visits import MODEL, MOST_BYTES, Clicks, check_isolation, small_caches
from tests.servers import ROOT, Server
from transformer.translator import Translator

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def model() -> Translator:
    return Translator.load(ROOT / "checkpoints" / MODEL, device="cpu")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with small_caches(tmp_path / "caches.json") as running:
        yield running
    most = json.loads((tmp_path / "caches.json").read_text())["most"]
    assert 0 < most < MOST_BYTES


def test_32_sessions_see_their_own_sentences_only(server: Server, model: Translator) -> None:
    check_isolation(server.address, model, 32)


def test_1000_interactions(server: Server, model: Translator) -> None:
    clicks = Clicks(server.address, model)
    while clicks.done < 1_000:
        clicks.visit(clicks.done, 50)
