"""The cost of one rerun of each page, counted, not timed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.pages.conftest import RunApp
from tests.pages.links import ask
from transformer import catalogue
from transformer.checkpoint import folder
from transformer.worker import tracing
from ui.core.view import Request


def test_a_rerun_does_no_more_than_it_must(
    run_app: RunApp,
    random_checkpoints: Path,
    nothing_cached: None,
    recorded: Any,
    forward_passes: Callable[[], int],
) -> None:
    """With nothing new it computes nothing; a new sentence is its trace and what is drawn of it."""
    started, keys = recorded(threading.Thread, "start"), recorded(Request, "__init__")
    listed = [recorded(os, name) for name in ("scandir", "listdir")]
    marks = [recorded(module, "fingerprint") for module in (catalogue, folder, tracing)]
    n_checkpoints = sum(each.is_dir() for each in random_checkpoints.iterdir())
    for page in ("", "beam", "attention", "head", "tokens", "positions", "compare"):
        app, shown = run_app(at=page), 2 if page == "compare" else 1
        for new in (False, True):
            forward_passes()
            for each in (started, keys, *listed, *marks):
                each.clear()
            _ = ask(app, f"Two dogs run through the {page} garden.") if new else app.run()
            jobs = sum(each["self"].name == "headlight-job" for each in started)
            drawn = new and page != "positions"
            assert (jobs > 0) == (forward_passes() > 0) == drawn and jobs <= 5, page
            assert len(keys) == {"positions": 0, "compare": 2}.get(page, 1), page
            # The root, and every checkpoint for its links and for its files' marks, unless a run
            # did so a moment ago. The models on screen are looked at in any case.
            places = [str(each.get("path")) for calls in listed for each in calls]
            scans = sum(place.startswith(str(random_checkpoints)) for place in places)
            assert scans <= 1 + 2 * n_checkpoints + shown, page
            assert shown <= sum(map(len, marks)) <= n_checkpoints + shown, page
