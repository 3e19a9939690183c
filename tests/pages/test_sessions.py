"""Several visitors at once: all see their own sentences only.

Real sessions on a real server with the smallest shipped checkpoint, without a browser. `make soak`
has many more of them, and more sentences than fit into the caches.
"""

from __future__ import annotations

from pathlib import Path

from tests.pages.visits import MODEL, check_isolation, small_caches
from tests.servers import ROOT
from transformer.translator import Translator


def test_everyone_sees_their_own_sentences(tmp_path: Path) -> None:
    model = Translator.load(ROOT / "checkpoints" / MODEL, device="cpu")
    with small_caches(tmp_path / "caches.json") as (address, _):
        check_isolation(address, model, 4)
