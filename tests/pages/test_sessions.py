"""Several visitors at once, and more sentences than fit: all see their own, caches are bounded.

Real sessions on a real server with the smallest shipped checkpoint, without a browser. `make soak`
has many more of both.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.pages.visits import (
    CACHE_BYTES,
    MODEL,
    MOST_BYTES,
    Clicks,
    check_isolation,
    small_caches,
)
from tests.servers import ROOT
from transformer.translator import Translator
from ui.work.lru import seal


def test_everyone_sees_their_own_sentences_and_caches_stay_below_their_limits(
    tmp_path: Path,
) -> None:
    model = Translator.load(ROOT / "checkpoints" / MODEL, device="cpu")
    with small_caches(tmp_path / "caches.json") as (address, _):
        check_isolation(address, model, 4)
        clicks = Clicks(address, model)
        size = seal(model.trace("a b c d e f g h i j k l m n o p q r"))
        while clicks.traced * size < 2 * CACHE_BYTES:
            clicks.visit(clicks.done, 12)
    most = json.loads((tmp_path / "caches.json").read_text())["most"]
    assert CACHE_BYTES / 2 < most < MOST_BYTES
