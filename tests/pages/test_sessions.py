"""Several visitors at once: all see their own sentences only; `make soak` has many more."""

from __future__ import annotations

from pathlib import Path

from tests.pages.visits import check_isolation, small_caches


def test_everyone_sees_their_own_sentences(tmp_path: Path) -> None:
    with small_caches(tmp_path / "caches.json") as (address, _):
        check_isolation(address, 4)
