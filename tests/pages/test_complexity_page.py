from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import said
from transformer.evaluation import complexity
from transformer.evaluation import complexity_records as records
from transformer.evaluation.complexity_records import Measurement, crossings, exponents, shipped
from transformer.worker.job import STOP, Job, Register, StoppedError
from ui.complexity import choice, views


@pytest.fixture(autouse=True)
def _a_server_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(choice, "JOBS", Register(kept=10))
    tiny = replace(complexity.QUICK, lengths=(8, 16), widths=(8, 16))
    monkeypatch.setattr(complexity, "QUICK", tiny)
    yield
    if (job := choice.current_job()) is not None:
        job.stop()
        job.ended(100)


def table(app: AppTest, index: int = 0) -> Any:
    return app.main.get("table")[index].value


def test_the_page_shows_what_the_file_holds(run_app: RunApp) -> None:
    made = shipped()
    app = run_app(at="complexity")
    rows = exponents(made, made.widths[-1])
    shown = table(app)["time in n"].tolist()
    assert len(shown) == len(rows)
    for row, text in zip(rows, shown, strict=True):
        assert row.in_n is not None
        assert text.startswith(f"{row.in_n.value:.2f}".replace("-", "−"))
    assert f"{made.rounds} rounds in one process, k = " in said(app)
    times = crossings(made, "products", "recurrent")
    measured = [f"{times[d].value / d:.1f}d (d = {d})" for d in made.widths]
    assert f"Measured times cross at {', '.join(measured)}." in said(app)
    ranges = table(app)["over n"].tolist()
    for row, text in zip(rows, ranges, strict=True):
        assert text == f"{row.lengths[0]:,} to {row.lengths[-1]:,}"
    assert len(set(ranges)) == 2, "the widest maps leave out a length"
    app = run_app(at="complexity", width=str(made.widths[0]), quantity="memory")
    assert app.query_params["width"] == str(made.widths[0])
    assert table(app)["time in n"].tolist() != shown
    # The lengths of one machine are said to be its own.
    run = made.made
    assert table(app, 1)["by count"].tolist() == ["n > d", "every n", "n > 2 d"]
    (text,) = (each.value for each in app.caption if "one machine under one load" in each.value)
    for each in (run.processor, run.date[:10], f"at a load of {run.load:g}"):
        assert each in text.replace("\\", "")


def test_a_walk_goes_step_by_step_to_its_end(run_app: RunApp) -> None:
    app = run_app(at="complexity", cost="path", between="2.9", walked="0")
    assert "**0** of 7 steps" in said(app)
    assert app.button(key="path_back").disabled
    app.button(key="path_step").click().run()
    assert "**1** of 7 steps" in said(app) and app.query_params["walked"] == "1"
    app = run_app(at="complexity", cost="path", between="9.2", through="restricted", window="4")
    assert "**4** of 4 layers" in said(app)
    assert app.button(key="path_step").disabled
    # A link may name things that do not exist.
    app = run_app(at="complexity", cost="path", between="30.30", length="4", through="nothing")
    assert "**1** of 1 step" in said(app)


def test_bytes_of_maps_follow_the_checkpoint(run_app: RunApp) -> None:
    app = run_app(at="complexity", cost="maps", checkpoint="alpha")
    assert "512² float32" in said(app)
    app.button(key="time_maps").click().run()
    assert "Medians of three rounds" in said(app)


@pytest.mark.parametrize("variable", ["HEADLIGHT_TRAIN", "HEADLIGHT_PUBLIC"])
def test_measuring_is_off(variable: str, run_app: RunApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = run_app(at="complexity")
    assert not app.button(key="measure_layers").disabled
    monkeypatch.setenv(variable, "off" if variable == "HEADLIGHT_TRAIN" else "1")
    app.run()
    button = app.button(key="measure_layers")
    assert button.disabled and variable in button.help
    monkeypatch.setenv("HEADLIGHT_TRAIN", "on")
    assert not app.run().button(key="measure_layers").disabled


def test_one_measurement_at_a_time_replaces_what_is_shown_unless_made_under_load(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_LOAD", 1e9)
    job = choice.begin_measuring(quick=True)
    assert job and choice.begin_measuring(quick=True) is None
    assert job.ended(100) and job.phase == "done"
    assert job.progress[0] == job.progress[1] > 0
    made = choice.last_measurement()
    assert made is not None and made.lengths == (8, 16)
    app = run_app(at="complexity", measured="here")
    assert set(table(app)["over n"]) == {"8 to 16"}
    assert app.button(key="measure_layers")
    second: Job[Measurement] = Job()
    monkeypatch.setattr(views, "begin_measuring", lambda: choice.JOBS.begin(9, lambda: second))
    app.button(key="measure_layers").click().run()
    assert "stop_measuring" not in [each.key for each in run_app(at="complexity").button]
    app.button(key="stop_measuring").click().run()
    assert second.request == STOP and choice.last_measurement() is made
    second.future.set_exception(StoppedError())
    monkeypatch.setattr(records, "MOST_LOAD", -1.0)
    monkeypatch.setattr(choice, "JOBS", Register())
    choice.JOBS.begin(1, lambda: job)
    assert choice.last_measurement() is None
    app = run_app(at="complexity", measured="here")
    (text,) = (each.value for each in app.error)
    assert f"other work kept {made.made.load:g} processors busy" in text.replace("\\", "")
    assert "8 to 16" not in table(app)["over n"].tolist()
