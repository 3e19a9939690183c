import shutil
import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import messages_in
from ui.models.rows import MOST_ROWS
from ui.work import results

N_GOOD, N_BROKEN = 75, 30

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, random_checkpoints: Path) -> Path:
    root = tmp_path_factory.mktemp("hundreds")
    for index in range(N_GOOD):
        shutil.copytree(random_checkpoints / "alpha", root / f"good-{index:03}")
    for index in range(N_BROKEN):
        shutil.copytree(random_checkpoints / "no-weights", root / f"broken-{index:03}")
    return root


def rows(app: AppTest) -> list[str]:
    return [line.split("**")[1] for line in messages_in(app).split("\n") if "**" in line[:40]]


def test_many_are_listed_in_parts_and_found(run_app: RunApp) -> None:
    app = run_app(at="models")
    assert rows(app)[:2] == ["good-000", "good-001"]
    assert sum(name.startswith(("good", "broken")) for name in rows(app)) == MOST_ROWS
    assert f"1-{MOST_ROWS} of {N_GOOD + N_BROKEN}" in messages_in(app)
    app = run_app(at="models", part="3")
    assert "good-060" in rows(app) and "broken-000" in rows(app)
    app.text_input(key="named_widget").set_value("EN-01").run()
    assert app.query_params["named"] == "EN-01"
    assert [name for name in rows(app) if name.startswith(("good", "broken"))] == [
        f"broken-01{digit}" for digit in range(10)
    ]
    app.text_input(key="named_widget").set_value("nothing like it").run()
    assert "No matching name" in messages_in(app)
    assert len(app.sidebar.selectbox(key="checkpoint_box").options) == N_GOOD


def test_what_comes_and_goes_shows_at_once_what_changes_within_seconds(
    random_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long listing is cached for a few seconds, but roots are checked every time."""
    for name in ("good-000", "good-001"):
        shutil.copytree(random_checkpoints / "alpha", tmp_path / name)
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(results, "_TIMES", 1e9)
    monkeypatch.setattr(results, "_LONGEST", 3600.0)
    asked: list[object] = []
    real = results.list_entries
    monkeypatch.setattr(results, "list_entries", lambda *given: (asked.append(1), real(*given))[1])
    assert len(results.entries()) == len(results.entries()) == 2
    assert len(asked) == 1
    shutil.copytree(tmp_path / "good-000", tmp_path / "new")
    assert "new" in {each.name for each in results.entries()}
    shutil.rmtree(tmp_path / "good-000")
    assert "good-000" not in {each.name for each in results.entries()}
    (tmp_path / "good-001" / "config.json").write_text("{")
    assert all(each.ok for each in results.entries() if each.name == "good-001")
    later = time.monotonic() + 7200
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not any(each.ok for each in results.entries() if each.name == "good-001")
