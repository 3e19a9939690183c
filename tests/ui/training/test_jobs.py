"""One job at a time, its end, and the switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformer.errors import CheckpointError
from transformer.toys.files import KEPT, Control
from transformer.toys.settings import ToySettings
from ui.training import jobs


def test_one_process_at_a_time_which_ends_when_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(jobs, "_JOBS", {})
    monkeypatch.setattr(jobs, "_place", lambda: tmp_path / "jobs")
    job = jobs.begin([ToySettings()])
    job.folder.ask(Control("pause"))
    assert jobs.find(job.name) is job and job.status().live
    with pytest.raises(jobs.BusyError, match="Yours can start when it ends"):
        jobs.begin([ToySettings()])
    job.process.kill()
    job.process.wait()
    assert job.status().phase == "failed" and jobs.busy() is None
    with pytest.raises(CheckpointError, match="not kept"):
        jobs.keep(job, 0, "mine")
    made = job.folder.lane(0) / KEPT
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    jobs.keep(job, 0, "mine")
    assert (tmp_path / "mine" / "config.json").is_file()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["jobs", "mine"]
    with pytest.raises(CheckpointError, match="already exists"):
        jobs.keep(job, 0, "mine")


def test_a_server_can_switch_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jobs.VARIABLE, "off")
    with pytest.raises(jobs.BusyError, match="HEADLIGHT_TRAIN=off"):
        jobs.begin([ToySettings()])
