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


def test_a_rerun_with_nothing_new_computes_nothing(counted: tuple[int, Costs]) -> None:
    for page, runs in counted[1].items():
        assert (runs["again"]["forward passes"], runs["again"]["jobs"]) == (0, 0), page


def test_a_new_sentence_is_its_trace_and_what_the_page_draws_of_it(
    counted: tuple[int, Costs],
) -> None:
    for page, runs in counted[1].items():
        passes, jobs = runs["sentence"]["forward passes"], runs["sentence"]["jobs"]
        assert (jobs > 0) == (passes > 0) == (page != "positions"), page
        assert jobs <= 5, page


def test_a_run_makes_its_key_once_and_lists_every_folder_at_most_once(
    counted: tuple[int, Costs],
) -> None:
    n_checkpoints, pages = counted
    for page, runs in pages.items():
        for run in ("again", "sentence"):
            costs = runs[run]
            assert costs["keys"] == {"positions": 0, "compare": 2}.get(page, 1), page
            # The root, and every checkpoint for its links and for its files' marks, unless a run
            # did so a moment ago. The models on screen are looked at in any case.
            shown = 2 if page == "compare" else 1
            assert costs["scans"] <= 1 + 2 * n_checkpoints + shown, page
            assert shown <= costs["marks"] <= n_checkpoints + shown, page
