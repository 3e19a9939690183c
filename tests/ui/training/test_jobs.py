"""One job at a time, its end, and the switch."""

from pathlib import Path

import pytest

from tests.waiting import wait_until
from transformer.errors import CheckpointError
from transformer.toys.files import KEPT, Control
from transformer.toys.settings import ToySettings
from ui.training import jobs


def test_one_run_at_a_time_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(jobs, "_RUNS", {})
    monkeypatch.setattr(jobs, "_place", lambda: tmp_path / "jobs")
    run = jobs.begin([ToySettings()])
    run.job.ask(Control("pause"))
    assert jobs.find(run.name) is run and run.phase == "starting"
    with pytest.raises(jobs.BusyError, match="Yours can start when it ends"):
        jobs.begin([ToySettings()])
    wait_until(lambda: run.phase == "paused")
    run.job.stop()
    assert run.job.ended(60) and run.phase == "stopped" and jobs.busy() is None
    with pytest.raises(CheckpointError, match="not kept"):
        jobs.keep(run, 0, "mine")
    made = run.lane(0) / KEPT
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    jobs.keep(run, 0, "mine")
    assert (tmp_path / "mine" / "config.json").is_file()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["jobs", "mine"]
    with pytest.raises(CheckpointError, match="already exists"):
        jobs.keep(run, 0, "mine")


def test_a_server_can_switch_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jobs.VARIABLE, "off")
    with pytest.raises(jobs.BusyError, match="HEADLIGHT_TRAIN=off"):
        jobs.begin([ToySettings()])
