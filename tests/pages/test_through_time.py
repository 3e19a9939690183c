import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import CAT, RunApp
from tests.pages.links import ask, press, said, trace_of
from tests.pages.test_translate import translation
from tests.snapshots import UPDATES, write_snapshots
from transformer.models.catalogue import inspect_entry
from transformer.models.one_stack.tracer import StackModel
from transformer.translator import Translator
from ui.core.doubts import headline
from ui.frame import through_time


@pytest.fixture(scope="module")
def root(random_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("time")
    run = {"training": {"init": "runs/`first`"}}
    abouts: dict[str, dict[str, Any]] = {
        "alpha": {"cosine": -0.004}, "beta": {}, "own": {"end": True},
        "like": {"recipe": run, "cosine": 0.5},
        "later": {"recipe": run}, "replaced": {"end": True, "weights": "0" * 64},
    }  # fmt: skip
    for name, about in abouts.items():
        shutil.copytree(random_checkpoints / "alpha", found / name)
        if name != "beta":
            write_snapshots(found / name, about=about)
    parts = {"earlier_parts": [{"recipe": run, "updates": UPDATES[-1]}]}
    (found / "later" / "metrics.json").write_text(json.dumps(parts))
    return found


UNRELATED = "another run: heads with the same number are unrelated"

#: What the bar says of the finished model, and of what the run began with.
SAID = {
    "alpha": ("20 updates, from random weights.", f"{UNRELATED} (cosine of their weights 0.00)."),
    "own": ("20 updates, from random weights.", "This run ends in the finished model."),
    "like": ("20 updates, from the weights of `` runs/`first` ``.",
             "are related (cosine of their weights 0.50)."),
    "later": ("20 updates, from the weights of `` runs/`first` ``.",
              "The finished model was trained further from the end of this run."),
    "replaced": ("20 updates, from random weights.",
                 "The record does not say how the finished model relates to this run."),
}  # fmt: skip


def slider(app: AppTest) -> Any:
    (found,) = app.main.select_slider
    return found


def test_the_bar_opens_on_the_first_and_leads_to_each(open_page: RunApp, root: Path) -> None:
    app = open_page("")
    assert not app.main.select_slider
    press(app, "open_time")
    assert slider(app).options == ["untrained", "3 updates", "20 updates"]
    assert slider(app).value == 0 and app.query_params["checkpoint"] == "alpha@0"
    slider(app).set_value(3).run()
    assert app.query_params["checkpoint"] == "alpha@3"
    assert "After 3 of 20 updates, from" in said(app) and "0.7%" in said(app)  # exp(-5)
    expected = Translator.load(root / "alpha@3", "cpu").trace(CAT)
    assert trace_of(app).tgt_ids == expected.tgt_ids
    assert translation(app) == (headline(expected) or "(empty)")
    slider(app).set_value(0).run()
    assert "Before the first of 20 updates: random weights." in said(app)
    press(app, "close_time")
    assert not app.main.select_slider and app.query_params["checkpoint"] == "alpha"
    app = open_page("", checkpoint="alpha@4")
    assert "alpha@4" in app.toast[0].value and app.query_params["checkpoint"] == "alpha"


@pytest.mark.parametrize("name", SAID)
def test_every_moment_says_what_the_run_began_with_and_what_the_finished_model_is(
    open_page: RunApp, name: str
) -> None:
    began, finished = SAID[name]
    for updates in UPDATES:
        app = open_page("", checkpoint=f"{name}@{updates}")
        begins = f"of 20 updates: {began.split(' from ')[1]}" if updates == 0 else began
        assert begins in said(app) and finished in said(app), said(app)
        first = "untrained" if "random" in began else "0 updates"
        assert slider(app).options == [first, "3 updates", "20 updates"]


def test_compare_offers_the_moments_and_names_the_finished_model(open_page: RunApp) -> None:
    def of(app: AppTest, label: str) -> Any:
        (found,) = (each for each in app.main.selectbox if each.label == label)
        return found

    app = open_page("compare", checkpoint="alpha@3")
    assert of(app, "Second model").options[:2] == ["alpha, 20 updates", "alpha, 0 updates"]
    assert of(app, "Second model").value == "alpha@20"
    for name, (_, finished) in SAID.items():
        app = open_page("compare", checkpoint=name, other=f"{name}@3")
        assert finished in said(app)
        assert not [each for each in of(app, "Second model").options[1:] if "updates" in each]
    app = open_page("compare", checkpoint="alpha", other="own@3")
    assert "finished model" not in said(app)


def test_playing_goes_from_moment_to_moment_and_stops_at_the_end_of_the_run(
    open_page: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = press(open_page("", checkpoint="alpha@20"), "play_time")
    assert app.query_params["checkpoint"] == "alpha@0"  # begins again
    assert app.button(key="play_time").label == "Stop"
    stops = through_time.moments(inspect_entry(root / "alpha"))
    state = {"now": "alpha@0"}
    monkeypatch.setattr(through_time.url_state, "get", lambda _: state["now"])
    monkeypatch.setattr(through_time.url_state, "put", lambda _, value: state.update(now=value))
    seen = []
    for _ in range(5):
        through_time.step("alpha", stops)
        seen.append(state["now"])
    assert seen == ["alpha@3", "alpha@20", "alpha@20", "alpha@20", "alpha@20"]
    state["now"] = "alpha@7"  # a snapshot that was there before
    through_time.step("alpha", stops)
    assert state["now"] == "alpha@20"
    monkeypatch.undo()
    assert app.button(key="play_time").label == "Stop"


def test_a_held_translation_is_read_by_every_moment(open_page: RunApp) -> None:
    app = open_page("", checkpoint="alpha@0")
    held = trace_of(app)
    press(app, "hold_time")
    assert app.query_params["target"] == held.text
    assert not [each for each in app.button if each.key == "hold_time"]
    slider(app).set_value(3).run()
    assert trace_of(app).text == held.text
    assert trace_of(app).cross.shape == held.cross.shape
    assert np.abs(trace_of(app).cross - held.cross).max() > 1e-3


def test_one_stack_is_seen_in_time_too(open_page: RunApp, family: Path, tmp_path: Path) -> None:
    found = Path(shutil.copytree(family, tmp_path / "family"))
    write_snapshots(found / "reader")
    app = open_page("family", root=found, checkpoint="reader@3")
    assert slider(app).value == 3
    assert "0.7%" in said(app)
    assert not [each for each in app.button if each.key == "hold_time"]
    (model,) = (each for each in app.main.button_group if each.label == "Model")
    assert model.value == "reader"
    moment = StackModel.load(found / "reader@3", "cpu")
    wanted = moment.guesses(moment.trace(CAT), 1)
    finished = StackModel.load(found / "reader", "cpu")
    assert np.exp(wanted[0].log_probs[0]) != pytest.approx(
        np.exp(finished.guesses(finished.trace(CAT), 1)[0].log_probs[0]), rel=1e-3
    )
    _, bars = app.main.get("vega_lite_chart")  # candidates of one place, then all places
    listed = bars.proto.alt
    shares = [f"{100 * np.exp(each.log_prob):.0f}%" for each in wanted if each.log_prob is not None]
    assert [each.rsplit(" ", 1)[1].strip(".") for each in listed.split(", ")] == shares


@pytest.mark.parametrize(("name", "language"), [
    ("bert-everyday", "English"), ("gpt-everyday", "English"), ("decoder-only-en-de", "German"),
    ("everyday-en-fr", "French"), ("reverse-toy", "letters"),
])  # fmt: skip
def test_the_way_to_the_training_names_the_language_learned(
    run_app: RunApp, name: str, language: str
) -> None:
    app = run_app(Path("checkpoints"), at="family", checkpoint=name)
    assert app.button(key="open_time").label == f"From noise to {language}"


def at_moments(open_page: RunApp, at: str, names: tuple[str, ...], **chosen: str) -> set[Any]:
    """Settings in addresses at all moments, opened by themselves and after each other."""
    path, _, settings = at.partition("?")
    chosen |= dict(parse_qsl(settings))
    apps = [open_page(path, checkpoint=f"alpha@{at}", sentence=CAT, **chosen) for at in UPDATES]
    said = {tuple(app.query_params.get(name, "") for name in names) for app in apps}
    for moment in UPDATES:
        slider(apps[0]).set_value(moment).run()
        said.add(tuple(apps[0].query_params.get(name, "") for name in names))
    return said


@pytest.mark.parametrize(("at", "names"), [
    ("", ("layer", "head", "step")), ("head", ("layer", "head", "query")),
    ("attention?display=heads", ("heads",)),
])  # fmt: skip
def test_every_moment_opens_on_the_finished_models_head(
    open_page: RunApp, at: str, names: tuple[str, ...]
) -> None:
    (same,) = at_moments(open_page, at, names)
    assert all(same)


@pytest.mark.parametrize(("at", "chosen"), [
    ("", {"step": "40"}), ("?view=why", {"step": "40", "why": "5.9"}), ("removals", {"step": "40"}),
    ("head?layer=1&head=2", {"query": "5", "key": "2"}), ("tokens", {"token": "9"}),
    ("beam?beam=2", {"a": "1.1", "b": "2.1"}),
])  # fmt: skip
def test_every_moment_keeps_what_is_chosen(
    open_page: RunApp, at: str, chosen: dict[str, str]
) -> None:
    """A step beyond the end of a moment's translation too, which shows its last one."""
    assert at_moments(open_page, at, tuple(chosen), **chosen) == {tuple(chosen.values())}


def test_playback_shows_the_chosen_sentence_and_head_to_its_end(
    open_page: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("attention", checkpoint="alpha", kind="cross", layer="2", head="1")
    ask(app, "A dog runs.")
    press(app, "open_time")
    monkeypatch.setattr(through_time, "PACE", 0.0)
    press(app, "play_time")
    seen = set()
    for _ in range(10):
        seen.add(app.query_params["checkpoint"])
        assert trace_of(app).source == "A dog runs."
        chosen = [app.query_params[name] for name in ("sentence", "kind", "layer", "head")]
        assert chosen == ["A dog runs.", "cross", "2", "1"]
        if app.button(key="play_time").label == "Play":
            break
        app.run()
    assert f"alpha@{UPDATES[-1]}" in seen and len(seen) > 1
