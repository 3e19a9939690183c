import json
import shutil
from operator import attrgetter
from pathlib import Path

import pytest
import safetensors.torch

from tests.pages.conftest import RunApp
from tests.pages.links import ask, go_to, view_of, written
from ui.frame import sidebar


def test_no_checkpoint_at_all_is_a_state_of_its_own(run_app: RunApp, tmp_path: Path) -> None:
    app = run_app(root=tmp_path / "none")
    assert "No model" in app.header[0].value
    go_to(app, "positions")
    assert not app.header and app.number_input(key="d_widget").value == 512
    app.segmented_control(key="part_widget").set_value("model").run()
    assert len(app.info) == 1


def test_weights_that_break_after_the_list_was_made_are_named(
    run_app: RunApp, random_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "root" / "nan"
    shutil.copytree(random_checkpoints / "alpha", folder)
    shutil.copytree(random_checkpoints / "beta", tmp_path / "root" / "other")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state[next(iter(state))].fill_(float("nan"))
    safetensors.torch.save_file(state, folder / "model.safetensors")
    app = run_app(root=tmp_path / "root", checkpoint="nan")
    said = app.error[0].value.replace("\\", "")
    assert said.startswith("nan/model.safetensors: tensor") and "NaN" in said
    app.selectbox(key="checkpoint_box").set_value("other").run()
    assert not app.error and written(app)


def test_decoding_has_defaults(run_app: RunApp, random_checkpoints: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name, record in (("first", {"beam_size": 3, "alpha": 1.4}), ("second", None)):
        shutil.copytree(random_checkpoints / "alpha", root / name)
        (root / name / "metrics.json").write_text(json.dumps({"default_decoding": record}))
    decoding = attrgetter("beam_size", "alpha")
    app = run_app(root=root)
    assert decoding(view_of(app)) == (3, 1.4)
    assert (app.query_params["beam"], app.query_params["alpha"]) == ("3", "1.4")
    app.sidebar.selectbox(key="checkpoint_box").set_value("second").run()
    assert decoding(view_of(app)) == (4, 0.6)  # the paper's
    # What a visitor chose stays; the rest follows the checkpoint. A button undoes the choice.
    app.sidebar.slider(key="alpha_box").set_value(1.0).run()
    app.sidebar.selectbox(key="checkpoint_box").set_value("first").run()
    assert decoding(view_of(app)) == (3, 1.0)
    app.sidebar.button(key="default_decoding_button").click().run()
    assert decoding(view_of(app)) == (3, 1.4)
    assert "default_decoding_button" not in {each.key for each in app.sidebar.button}
    # So does a link's setting.
    linked = run_app(root=root, checkpoint="second", alpha="0.6")
    linked.sidebar.selectbox(key="checkpoint_box").set_value("first").run()
    assert decoding(view_of(linked)) == (3, 0.6)
    # Values beyond what the app offers are told.
    (root / "first" / "metrics.json").write_text(
        json.dumps({"default_decoding": {"beam_size": 12, "alpha": 0.5, "early_stopping": True}})
    )
    app = run_app(root=root)
    assert decoding(view_of(app)) == (10, 0.5)
    own = "own decoding is beam 12, alpha 0.5; the limit here is beam 10, alpha 0.5"
    said = f"This model's {own}."
    assert said in [each.value for each in app.sidebar.caption]


def test_letters_have_a_sentence(run_app: RunApp, random_checkpoints: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("everyday-en-de", "everyday-en-fr", "reverse-toy"):
        shutil.copytree(random_checkpoints / "alpha", root / name)
    app = run_app(root=root)
    assert view_of(app).checkpoint == "everyday-en-de"
    ask(app, "A dog runs.")
    app.sidebar.selectbox(key="checkpoint_box").set_value("everyday-en-fr").run()
    assert view_of(app).sentence == "A dog runs."
    app.sidebar.selectbox(key="checkpoint_box").set_value("reverse-toy").run()
    assert view_of(app).sentence.isalpha()
    app.sidebar.selectbox(key="checkpoint_box").set_value("everyday-en-de").run()
    assert view_of(app).sentence == "A dog runs."


def test_a_gpu_is_preferred_if_there_is(run_app: RunApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidebar, "available_devices", lambda: ("cuda", "cpu"))
    monkeypatch.setattr(sidebar, "device_label", str.upper)
    app = run_app()
    assert view_of(app).device == app.query_params["device"] == "cuda"
    app.sidebar.selectbox(key="device_box").set_value("cpu").run()
    assert view_of(app).device == "cpu"
    assert view_of(run_app(device="cpu")).device == "cpu"
