"""The app as a script, on small random checkpoints or on the shipped ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from ui.traces import TraceCache

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def random_checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """A folder with two loadable checkpoints, and four that are broken in different ways."""
    root = tmp_path_factory.mktemp("root")
    names = ("alpha", "beta", "cut", "empty-config", "no-weights", "wrong-shape")
    for name in names:
        shutil.copytree(tiny_checkpoint, root / name)
    weights = root / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    (root / "empty-config" / "config.json").write_text("{")
    (root / "no-weights" / "model.safetensors").unlink()
    config = root / "wrong-shape" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "d_ff": 44}))
    return root


@pytest.fixture(autouse=True)
def _fresh_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts with nothing cached."""
    monkeypatch.setattr("ui.cache.TRACES", TraceCache(64 * 2**20))


@pytest.fixture
def run_app(monkeypatch: pytest.MonkeyPatch, random_checkpoints: Path) -> Callable[..., AppTest]:
    """Run the app once, with a query and a folder of checkpoints; a traceback fails the test."""

    def run(root: Path = random_checkpoints, **query: str) -> AppTest:
        monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
        monkeypatch.setenv("HEADLIGHT_IMPORT", "on")  # there is no browser to be local
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
        app.query_params.update(query)
        app.run()
        assert not app.exception
        return app

    return run
