"""The frame: navigation, sidebar, URL, and checkpoints that do not work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import streamlit
from streamlit.testing.v1 import AppTest

from transformer.worker.turns import Turn
from ui.frame import sidebar
from ui.frame.pages import PAGES
from ui.work import models
from ui.work.lru import Lru
from ui.work.roots import checkpoints_root

RunApp = Callable[..., AppTest]
ROOT = Path(__file__).resolve().parents[2]


def view_of(app: AppTest) -> sidebar.View:
    view = app.session_state["headlight_view"]
    assert isinstance(view, sidebar.View)
    return view


def sidebar_text(app: AppTest) -> str:
    return "\n".join(caption.value for caption in app.sidebar.caption)


def test_every_page_file_is_in_the_frame_under_an_address_of_its_own() -> None:
    files = {f"pages/{path.name}" for path in (ROOT / "pages").glob("*.py")}
    assert {spec.file for spec in PAGES} == files
    assert len({spec.url_path for spec in PAGES}) == len(PAGES)
    assert all(spec.url_path != Path(spec.file).stem for spec in PAGES)


@pytest.mark.parametrize("spec", PAGES, ids=lambda spec: spec.url_path)
def test_every_page_runs_and_runs_again(run_app: RunApp, spec: Any) -> None:
    app = run_app()
    for _ in range(2):
        app.switch_page(spec.file).run()
        assert not app.exception
        assert app.sidebar.selectbox(key="checkpoint_box").value == "alpha"


def test_a_run_that_opens_a_page_lets_shorter_ones_go_first(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = run_app(at="positions")
    behind: list[float] = []
    monkeypatch.setattr(Turn, "fall_back", lambda turn, seconds: behind.append(seconds))
    app.run()
    assert not behind
    app.switch_page("pages/complexity_page.py").run()
    assert len(behind) == 1


def test_a_run_for_another_translation_lets_shorter_ones_go_first(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = run_app()
    behind: list[float] = []
    monkeypatch.setattr(Turn, "fall_back", lambda turn, seconds: behind.append(seconds))
    app.slider(key="beam_box").set_value(3).run()
    assert behind


def test_a_spinner_is_made_only_while_a_model_loads(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    spinner = streamlit.spinner
    monkeypatch.setattr(streamlit, "spinner", lambda text: made.append(text) or spinner(text))
    monkeypatch.setattr(models, "MODELS", Lru(models.MODEL_BYTES, models.model_bytes))
    app = run_app()
    assert made == ["Loading alpha"]
    app.run()
    assert len(made) == 1


@pytest.mark.parametrize("spec", PAGES, ids=lambda spec: spec.url_path)
def test_a_page_run_by_itself_leads_to_the_app(
    monkeypatch: pytest.MonkeyPatch, random_checkpoints: Path, spec: Any
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(random_checkpoints))
    gone: list[str] = []

    def switch(page: str, **options: Any) -> None:
        gone.append(page)
        streamlit.stop()

    monkeypatch.setattr("streamlit.switch_page", switch)
    app = AppTest.from_file(str(ROOT / spec.file), default_timeout=60)
    app.run()
    assert gone == ["app.py"]
    assert not app.exception
    assert not app.main.children


def test_the_sidebar_holds_sentence_checkpoint_and_device(run_app: RunApp) -> None:
    app = run_app()
    assert app.sidebar.text_area(key="sentence_box").value == view_of(app).sentence != ""
    assert app.sidebar.selectbox(key="checkpoint_box").options == ["alpha", "beta"]
    assert "CPU" in sidebar_text(app)
    assert view_of(app).device == "cpu"


def test_broken_checkpoints_are_named_with_what_is_wrong(run_app: RunApp) -> None:
    app = run_app()
    said = sidebar_text(app).replace("\\", "")
    assert "4 checkpoints cannot be used" in [box.label for box in app.sidebar.expander]
    for name, file, why in (
        ("cut", "model.safetensors", "not a whole safetensors file"),
        ("empty-config", "config.json", "JSON"),
        ("no-weights", "model.safetensors", "missing"),
        ("wrong-shape", "model.safetensors", "shape"),
    ):
        line = next(line for line in said.splitlines() if line.startswith(f"{name}/{file}"))
        assert why in line
    assert str(checkpoints_root()) not in said


def test_a_broken_checkpoint_in_the_link_gives_way_to_another(run_app: RunApp) -> None:
    app = run_app(checkpoint="cut")
    assert view_of(app).checkpoint == "alpha"
    assert "`cut` cannot be used" in app.toast[0].value
    assert app.query_params["checkpoint"] == "alpha"


def test_no_checkpoint_at_all_is_a_state_of_its_own(run_app: RunApp, tmp_path: Path) -> None:
    app = run_app(root=tmp_path / "none")
    assert "No checkpoint" in app.header[0].value
    app.switch_page("pages/positions_page.py").run()
    assert not app.exception
    assert not app.header


def test_weights_that_break_after_the_list_was_made_are_named(
    run_app: RunApp, random_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list reads headers only; NaN among the numbers shows when the model is loaded."""
    folder = tmp_path / "root" / "nan"
    shutil.copytree(random_checkpoints / "alpha", folder)
    shutil.copytree(random_checkpoints / "beta", tmp_path / "root" / "other")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    name = next(iter(state))
    state[name] = state[name] * float("nan")
    safetensors.torch.save_file(state, folder / "model.safetensors")
    app = run_app(root=tmp_path / "root", checkpoint="nan")
    said = app.error[0].value.replace("\\", "")
    assert said.startswith("nan/model.safetensors: tensor")
    assert "NaN" in said
    app.selectbox(key="checkpoint_box").set_value("other").run()
    assert not app.error
    assert app.text


def test_the_url_holds_the_view_and_a_link_reopens_it(run_app: RunApp) -> None:
    first = run_app()
    first.sidebar.selectbox(key="checkpoint_box").set_value("beta").run()
    first.sidebar.text_area(key="sentence_box").set_value("Two men & a girl? 50% +1")
    first.sidebar.button[0].click().run()
    first.sidebar.slider(key="beam_box").set_value(3).run()
    first.sidebar.slider(key="alpha_box").set_value(0.0).run()
    link = {key: str(value) for key, value in first.query_params.items()}
    assert link["alpha"] == "0"
    second = run_app(**link)
    assert view_of(second) == view_of(first)
    assert view_of(second).alpha == 0
    assert view_of(second).beam_size == 3
    assert second.query_params == first.query_params
    assert second.sidebar.text_area(key="sentence_box").value == "Two men & a girl? 50% +1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam", "0"), ("beam", "-1"), ("beam", "many"), ("beam", "1e3"), ("beam", ""),
        ("alpha", "nan"), ("alpha", "inf"), ("alpha", "-0.1"), ("alpha", "x" * 500),
        ("checkpoint", "../../etc"), ("checkpoint", "<script>"), ("checkpoint", "\x00"),
        ("device", "tpu"), ("step", "0"), ("step", "99999"), ("step", "two"), ("layer", "99"),
        ("layer", "0"), ("head", "-3"), ("head", "all"), ("sentence", "a" * 30_000),
        ("kind", "sideways"), ("unheard-of", "1"),
    ],
)  # fmt: skip
def test_what_a_link_may_not_say_is_dropped(run_app: RunApp, name: str, value: str) -> None:
    plain = run_app()
    app = run_app(**{name: value})
    assert view_of(app) == view_of(plain)
    assert app.query_params == plain.query_params
    assert not app.error


def test_settings_survive_a_change_of_page(run_app: RunApp) -> None:
    app = run_app(layer="2", head="3", beam="2", step="2")
    before = view_of(app)
    app.switch_page("pages/positions_page.py").run()
    assert "step" not in app.query_params
    app.switch_page("pages/translate_page.py").run()
    assert view_of(app) == before
    assert [app.query_params[name] for name in ("layer", "head", "step")] == ["2", "3", "2"]


def test_decoding_starts_at_the_checkpoints_defaults(
    run_app: RunApp, random_checkpoints: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for name, record in (("first", {"beam_size": 3, "alpha": 1.4}), ("second", None)):
        shutil.copytree(random_checkpoints / "alpha", root / name)
        (root / name / "metrics.json").write_text(json.dumps({"default_decoding": record}))

    def decoding(app: AppTest) -> tuple[int, float]:
        return view_of(app).beam_size, view_of(app).alpha

    app = run_app(root=root)
    assert decoding(app) == (3, 1.4)
    assert (app.query_params["beam"], app.query_params["alpha"]) == ("3", "1.4")
    app.sidebar.selectbox(key="checkpoint_box").set_value("second").run()
    assert decoding(app) == (4, 0.6)  # the paper's
    # What a visitor chose stays; the rest follows the checkpoint. A button undoes the choice.
    app.sidebar.slider(key="alpha_box").set_value(1.0).run()
    app.sidebar.selectbox(key="checkpoint_box").set_value("first").run()
    assert decoding(app) == (3, 1.0)
    app.sidebar.button(key="default_decoding_button").click().run()
    assert decoding(app) == (3, 1.4)
    assert "default_decoding_button" not in {each.key for each in app.sidebar.button}
    # So does a link's setting.
    linked = run_app(root=root, checkpoint="second", alpha="0.6")
    linked.sidebar.selectbox(key="checkpoint_box").set_value("first").run()
    assert decoding(linked) == (3, 0.6)


def test_an_example_fills_the_sentence(run_app: RunApp) -> None:
    app = run_app()
    chosen = app.sidebar.selectbox(key="example_box").options[2]
    app.sidebar.selectbox(key="example_box").set_value(chosen).run()
    assert view_of(app).sentence == chosen
    assert app.sidebar.text_area(key="sentence_box").value == chosen
    assert app.sidebar.selectbox(key="example_box").value is None


def test_a_model_of_letters_has_a_sentence_of_its_own(
    run_app: RunApp, random_checkpoints: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for name in ("everyday-en-de", "everyday-en-fr", "reverse-toy"):
        shutil.copytree(random_checkpoints / "alpha", root / name)
    app = run_app(root=root)
    assert view_of(app).checkpoint == "everyday-en-de"
    app.sidebar.text_area(key="sentence_box").set_value("A dog runs.")
    app.sidebar.button[0].click().run()
    box = app.sidebar.selectbox(key="checkpoint_box")
    box.set_value("everyday-en-fr").run()
    assert view_of(app).sentence == "A dog runs."
    app.sidebar.selectbox(key="checkpoint_box").set_value("reverse-toy").run()
    letters = view_of(app).sentence
    assert letters.isalpha()
    app.sidebar.selectbox(key="checkpoint_box").set_value("everyday-en-de").run()
    assert view_of(app).sentence == "A dog runs."


def test_a_gpu_is_offered_and_preferred_where_there_is_one(
    run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidebar, "available_devices", lambda: ("cuda", "cpu"))
    monkeypatch.setattr(sidebar, "device_label", str.upper)
    app = run_app()
    assert app.sidebar.selectbox(key="device_box").value == "cuda"
    assert view_of(app).device == "cuda"
    assert app.query_params["device"] == "cuda"
    app.sidebar.selectbox(key="device_box").set_value("cpu").run()
    assert view_of(app).device == "cpu"
    assert not app.exception
    assert view_of(run_app(device="cpu")).device == "cpu"


def test_sessions_do_not_see_each_other(run_app: RunApp) -> None:
    one, other = run_app(), run_app()
    one.sidebar.text_area(key="sentence_box").set_value("A dog runs.")
    one.sidebar.button[0].click().run()
    other.run()
    assert view_of(one).sentence == "A dog runs."
    assert view_of(other).sentence != "A dog runs."
