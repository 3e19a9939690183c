"""The cost of one rerun of each page, counted, not timed."""

import json
from pathlib import Path

import pytest

from tests import forks

Costs = dict[str, dict[str, dict[str, int]]]


@pytest.fixture(scope="module")
def counted(
    random_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Costs]:
    """Return the number of checkpoints, and each page's cost, counted in a process of its own."""
    log = tmp_path_factory.mktemp("reruns") / "log.txt"
    command = ["benchmarks/reruns.py", "--json", "--checkpoints", str(random_checkpoints)]
    written = forks.run(command, {}, log)
    found, _ = json.JSONDecoder().raw_decode(written, written.index("{\n"))  # among warnings
    return found["checkpoints"], found["pages"]


def test_a_rerun_does_no_more_than_it_must(counted: tuple[int, Costs]) -> None:
    """With nothing new it computes nothing; a new sentence is its trace and what is drawn of it."""
    n_checkpoints, pages = counted
    for page, runs in pages.items():
        passes, jobs = (runs["sentence"][name] for name in ("forward passes", "jobs"))
        assert (jobs > 0) == (passes > 0) == (page != "positions") and jobs <= 5, page
        assert (runs["again"]["forward passes"], runs["again"]["jobs"]) == (0, 0), page
        for costs in (runs["again"], runs["sentence"]):
            assert costs["keys"] == {"positions": 0, "compare": 2}.get(page, 1), page
            # The root, and every checkpoint for its links and for its files' marks, unless a run
            # did so a moment ago. The models on screen are looked at in any case.
            shown = 2 if page == "compare" else 1
            assert costs["scans"] <= 1 + 2 * n_checkpoints + shown, page
            assert shown <= costs["marks"] <= n_checkpoints + shown, page
