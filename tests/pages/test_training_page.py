import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.snapshots import write_snapshots
from tests.waiting import wait_until
from transformer.evaluation.ablation_summary import caveats, table
from transformer.evaluation.ablations import shipped
from transformer.training.toys.files import KEPT, Control
from transformer.training.toys.run import ToyRun
from transformer.training.toys.settings import ToySettings
from transformer.types import CheckpointError
from transformer.worker.job import Job, Register
from ui.core import public
from ui.training import jobs
from ui.training.exhibits import AXES
from ui.training.jobs import Training

TINY = ToySettings(d_model=16, n_heads=2, n_layers=1, updates=10)


def test_a_run_is_found(run_app: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job: Job[bool] = Job()
    models = [TINY, replace(TINY, change="no_residual")]
    monkeypatch.setattr(jobs, "JOBS", Register())
    jobs.JOBS.begin("secret", lambda: Training("secret", tmp_path, models, job))

    app = run_app(at="training", checkpoint="alpha")
    assert app.button(key="start_training").disabled and "update 0 of 10" in app.info[0].value

    job.ask(Control("pause"))
    app = run_app(at="training", checkpoint="alpha", training="secret")
    app.button(key="step_training").click().run()
    assert job.request == Control("pause", until=1)
    app.select_slider(key="rate_training").set_value(3.0).run()
    assert job.request == Control("pause", until=1, factor=3.0)
    app.button(key="pause_training").click().run()
    assert job.request.wish == "run"

    job.start(lambda job: ToyRun(tmp_path, models, job).run())
    assert job.ended(100)
    app = run_app(at="training", checkpoint="alpha", training="secret")
    assert len(app.main.get("vega_lite_chart")) == 3  # curves
    grids = [b"cell_width" in part.proto.bytes for part in app.main.get("bidi_component")]
    assert sum(grids) == 2  # the maps of both
    assert "no residual cannot be kept" in " ".join(each.value for each in app.caption)
    monkeypatch.setenv("HEADLIGHT_IMPORT", "on")
    app.run()
    app.text_input(key="keep_name_0").set_value("a/b").run()
    app.button(key="keep_0").click().run()
    assert "not a valid name" in app.toast[0].value
    app.text_input(key="try_toy").set_value("abcd").run()  # without keeping it
    (tried,) = [each.value for each in app.markdown if "becomes" in each.value]
    assert tried.startswith("`abcd` becomes `") and tried.endswith(". Right is `dcba`.")
    app.button(key="new_run").click().run()
    assert not app.button(key="start_training").disabled
    assert any("`facebadlik` | `kildabecaf`" in each.value for each in app.markdown)
    assert len(app.main.get("vega_lite_chart")) == 3
    app = run_app(at="training", checkpoint="alpha")  # another visitor
    assert not app.main.get("vega_lite_chart")


def test_runs_are_watched(
    run_app: Any, tmp_path: Path, random_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_RUNS", str(tmp_path))
    app = run_app(at="training", checkpoint="alpha", training_view="watch")
    assert any("There are no runs in" in text.value for text in app.markdown)
    assert not app.main.get("vega_lite_chart")
    for name in ("bare", "seen"):
        shutil.copytree(random_checkpoints / "alpha", tmp_path / "models" / name)
    write_snapshots(tmp_path / "models/seen")
    app = run_app(tmp_path / "models", at="training", training_view="watch")
    (chart,) = app.main.get("vega_lite_chart")
    assert "seen" in chart.proto.alt and "bare" not in chart.proto.alt
    for name, rate in (("first", 0.1), ("second", 0.3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.json").write_text(
            f'{{"model": {{"dropout": {rate}, "d_model": 8}}, "training": {{"epochs": 3}}}}'
        )
        (tmp_path / name / "metrics.jsonl").write_text(
            '{"kind": "update", "update": 50, "epoch": 0, "nll": 2.5, "lr": 0.1, "seconds": 9}\n'
            '{"kind": "epoch", "update": 60, "epoch": 1, "val_nll": 2.25}\n{"kind": "upd'
        )
    app = run_app(
        at="training", checkpoint="alpha", training_view="watch", watch="second,../first,first"
    )
    assert app.multiselect[0].value == ["second", "first"]
    assert "update 60; epoch 2 of at most 3" in " ".join(each.value for each in app.caption)
    assert app.main.get("table")[0].value["setting"].tolist() == ["`model.dropout`"]
    assert len(app.main.get("vega_lite_chart")) == 4
    app.multiselect[0].set_value(["first"]).run()
    assert app.query_params["watch"] == "first"


def test_table_3_shows_what_the_file_holds(run_app: Any) -> None:
    lines = table(shipped())
    app = run_app(at="training", checkpoint="alpha", training_view="table3")
    shown = app.main.get("table")[0].value
    assert shown["runs"].tolist() == [str(len(each.seeds)) for each in lines]
    assert shown["change"].tolist() == [each.variation.words for each in lines]
    assert len({each.variation.words for each in lines}) == len(lines)
    for measure in AXES:
        app = run_app(at="training", checkpoint="alpha", training_view="table3", table3=measure)
        shown = app.main.get("table")[0].value["against the unchanged model"].tolist()
        for line, text in zip(lines[1:], shown[1:], strict=True):
            figure = line.figures[measure]
            if line.seeds:
                found = re.findall(r"(better|worse) \((−?\d+\.\d+)", text)
                for (word, digits), value in zip(
                    found, (figure.difference, figure.theirs), strict=True
                ):
                    assert float(digits.replace("−", "-")) == pytest.approx(value, abs=0.05)
                    assert (word == "better") == ((value < 0) == (measure == "nll"))
    notes = " ".join(each.value for each in app.caption)
    assert caveats(shipped(), lines) in notes
    assert f"in {shipped().comparable.runs[0].precision}" in notes


def test_one_run_at_a_time_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(jobs, "JOBS", Register())
    monkeypatch.setattr(jobs, "_runs_folder", lambda: tmp_path / "jobs")
    run = jobs.begin([ToySettings()])
    run.job.ask(Control("pause"))
    assert jobs.JOBS.get(run.name) is run and run.phase == "starting"
    with pytest.raises(jobs.BusyError, match="You can start your run when it ends"):
        jobs.begin([ToySettings()])
    wait_until(lambda: run.phase == "paused")
    run.job.stop()
    assert run.job.ended(60) and run.phase == "stopped" and jobs.busy() is None
    with pytest.raises(CheckpointError, match="kept no model"):
        jobs.keep(run, 0, "mine")
    made = run.lane(0) / KEPT
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    jobs.keep(run, 0, "mine")
    assert (tmp_path / "mine" / "config.json").is_file()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["jobs", "mine"]
    with pytest.raises(CheckpointError, match="already exists"):
        jobs.keep(run, 0, "mine")
    monkeypatch.setenv(public.TRAIN, "off")  # by the server
    with pytest.raises(jobs.BusyError, match="HEADLIGHT_TRAIN=off"):
        jobs.begin([ToySettings()])
