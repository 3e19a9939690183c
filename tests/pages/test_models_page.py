"""The Models page: its list, imports, and paths that are never opened."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import types
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import messages_in, press
from tests.transformer.damage import content
from tests.transformer.huggingface.models import make_folder
from tests.transformer.importers.foreign import fairseq, joeynmt
from tests.transformer.site import NAME, Hub, serving
from transformer.catalogue import inspect_entry
from ui.frame import import_access
from ui.models import import_jobs

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of transformers
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("no_import_outlives_its_test"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
    return folder


@pytest.fixture
def root(tmp_path: Path, random_checkpoints: Path, theirs: Path) -> Path:
    """A root with a checkpoint, a broken one, and models to import."""
    root = tmp_path / "root"
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    shutil.copytree(random_checkpoints / "cut", root / "cut")
    shutil.copytree(theirs, root / "foreign" / "theirs")
    joeynmt(root / "foreign" / "joeynmt", "pre-norm, other ids")
    fairseq(root / "foreign" / "fairseq", "post-norm, all shared")
    return root


def finished(app: AppTest) -> AppTest:
    """Wait for the import that this session began."""
    job = app.session_state["headlight_import"]
    job.ended(300)
    assert not job.running
    return app.run()


def test_what_is_here_is_listed_with_what_is_known(run_app: RunApp, root: Path) -> None:
    metrics = {"tests": {"a_test": {"bleu": 12.34, "chrf": "x"}, "b": {"bleu": float("nan")}}}
    (root / "alpha" / "metrics.json").write_text(json.dumps(metrics))
    app = run_app(root, at="models")
    said = messages_in(app)
    assert "**alpha** · translates sentences" in said
    assert "2+3 layers · d_model 24 · 3 heads" in said
    assert "BLEU 12.3 on `a_test`" in said
    assert "nan" not in said
    assert "**cut** · cannot be used" in said
    assert "model.safetensors: not a whole safetensors file" in said
    assert str(root.parent) not in said
    assert app.button(key="use_alpha").disabled


def test_a_card_is_shown_on_demand_as_text(run_app: RunApp, root: Path) -> None:
    card = "---\ntags: [x]\n---\n# It\n<script>alert(1)</script> ![p](https://x.example/p) **b**"
    (root / "alpha" / "README.md").write_text(card)
    app = run_app(root, at="models")
    assert not any("alert" in each.value for each in app.markdown)
    app.button(key="card_alpha").click().run()
    assert app.query_params["card"] == "alpha"
    shown = next(each.value for each in app.markdown if "alert" in each.value)
    assert "#### It" in shown
    assert r"\<script\>" in shown
    assert "](" not in shown
    assert "**b**" in shown
    app.button(key="card_alpha").click().run()
    assert not any("alert" in each.value for each in app.markdown)


@pytest.mark.parametrize(("kind", "folder"), [("marian", "theirs"), ("fairseq", "fairseq")])
def test_a_folder_is_imported_and_used(run_app: RunApp, root: Path, kind: str, folder: str) -> None:
    app = run_app(root, at="models")
    app.selectbox(key="format_widget").set_value(kind).run()
    assert app.selectbox(key="folder_box").options == [f"foreign/{folder}"]
    app.selectbox(key="folder_box").set_value(f"foreign/{folder}").run()
    app.text_input(key="as_widget").set_value("mine").run()
    said = messages_in(app)
    assert f"from `foreign/{folder}`; takes up to" in said
    assert "on disk" in said and "of memory" in said
    assert not (root / "mine").exists()
    app.button(key="import_button").click().run()
    finished(app)
    assert f"Imported `foreign/{folder}` as **mine**" in messages_in(app)
    assert inspect_entry(root / "mine").ok
    assert sorted(each.name for each in root.iterdir()) == ["alpha", "cut", "foreign", "mine"]
    app.button(key="use_import").click().run()
    assert app.query_params["checkpoint"] == "mine"
    assert f"imported from foreign/{folder}" in messages_in(app)
    app.switch_page("pages/head_page.py").run()
    assert not app.error


def test_a_model_that_lies_in_the_root_fills_the_form(
    run_app: RunApp, root: Path, theirs: Path
) -> None:
    shutil.copytree(theirs, root / "theirs")
    app = run_app(root, at="models")
    assert "**theirs** · another library's model, not imported yet" in messages_in(app)
    app.button(key="bring_theirs").click().run()
    assert app.selectbox(key="folder_box").value == "theirs"
    assert app.text_input(key="as_widget").value == "theirs-imported"
    assert app.button(key="import_button").label == r"Import as theirs\-imported"


def test_a_model_of_the_hub_is_imported(
    run_app: RunApp, root: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("no_proxy", "*")
    contents = {each.name: each.read_bytes() for each in theirs.iterdir()}
    with serving(Hub(contents)) as site:
        site.publish()
        monkeypatch.setenv("HF_ENDPOINT", site.home)
        app = run_app(root, at="models", **{"from": "hub", "hub": NAME, "as": "fetched"})
        assert not site.asked  # a link alone starts nothing
        press(app, "Look up its size")
        assert "Downloads **" in messages_in(app)
        assert not any("resolve" in path for path in site.asked)
        app.button(key="import_button").click().run()
        finished(app)
    assert f"Imported `{NAME}` as **fetched**" in messages_in(app)
    assert inspect_entry(root / "fetched").ok


def test_a_hub_that_is_out_of_reach_is_one_line(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    app = run_app(root, at="models", **{"from": "hub", "hub": "owner/name", "as": "x"})
    press(app, "Look up its size")
    assert "owner/name: the hub did not give it" in app.warning[0].value.replace("\\", "")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    app.run()
    assert app.text_input(key="hub_widget").disabled
    assert "Not available: the hub is switched off by HF_HUB_OFFLINE" in messages_in(app)


@pytest.mark.parametrize(("folder", "name"), [("out", "x"), ("foreign/theirs", "../x")])
def test_folders_that_are_not_opened_and_names_that_are_not_taken(
    run_app: RunApp, root: Path, folder: str, name: str
) -> None:
    (root / "out").symlink_to(root.parent.parent)
    app = run_app(root, at="models", folder=folder, **{"as": name})
    (line,) = [each.value for each in app.main.get("warning")]
    assert "\n" not in line
    assert str(root.parent) not in line.replace("\\", "")
    assert not [each for each in app.button if each.key == "import_button"]


def test_of_two_sessions_with_one_name_one_wins(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        run_app(root, at="models", folder="foreign/theirs", **{"as": "mine"}) for _ in range(2)
    )
    gate = threading.Event()
    real = import_jobs.check_room
    monkeypatch.setattr(import_jobs, "check_room", lambda plan: (gate.wait(100), real(plan)))
    first.button(key="import_button").click().run()
    assert "Importing `foreign/theirs` as **mine**" in messages_in(first)
    second.button(key="import_button").click().run()
    assert "mine is already being imported" in second.toast[0].value.replace("\\", "")
    gate.set()
    finished(first)
    assert "Imported" in messages_in(first)
    second.run()
    assert "mine already exists; choose another" in messages_in(second)


def test_an_import_is_stopped_and_leaves_nothing(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(root.rglob("*"))
    app = run_app(root, at="models", folder="foreign/theirs", **{"as": "mine"})
    gate = threading.Event()
    monkeypatch.setattr(import_jobs, "check_room", lambda plan: gate.wait(100))
    app.button(key="import_button").click().run()
    app.button(key="stop_import").click()
    app.run()
    gate.set()
    finished(app)
    assert "Stopped. Nothing was kept." in messages_in(app)
    assert sorted(root.rglob("*")) == before
    app.button(key="again_import").click().run()
    assert app.selectbox(key="folder_box").value is None


def test_a_public_server_offers_no_import(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = run_app(root, at="models", folder="foreign/theirs", **{"as": "mine"})
    assert app.button(key="import_button")
    monkeypatch.setenv("HEADLIGHT_IMPORT", "")
    app.run()
    assert not [each for each in app.button if each.key == "import_button"]
    assert "HEADLIGHT_IMPORT" in app.info[0].value.replace("\\", "")
    app.text_input(key="import_token").input("x" * 32).run()
    assert "not this server" in app.toast[0].value
    app.text_input(key="import_token").input(f" {import_access.token()}").run()
    assert app.button(key="import_button")
    assert import_access.token() not in str(app.query_params)


@pytest.mark.parametrize("name", ["out", "a\0b<script>" + "x" * 5_000, "alpha/../../x"])
def test_what_a_link_calls_a_checkpoint_is_only_a_name(
    run_app: RunApp, root: Path, name: str
) -> None:
    """One line says that there is no such checkpoint, and the app goes on with another."""
    (root / "out").symlink_to("/etc")
    app = run_app(root, at="models", checkpoint=name, card=name[:200])
    assert app.sidebar.selectbox(key="checkpoint_box").value == "alpha"
    assert app.query_params["checkpoint"] == "alpha"
    (line,) = [each.value for each in app.toast]
    assert "\n" not in line
    assert len(line) < 200


def test_whatever_lies_in_the_root_the_app_lives(run_app: RunApp, root: Path) -> None:
    """Listed with a reason, and the good one still works."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(root / "alpha", root / name))

    (copy("a-pipe") / "config.json").unlink()
    os.mkfifo(root / "a-pipe" / "config.json")
    (copy("<b>*name*\n$x$") / "config.json").write_text("{")
    copy("same")
    (root / "to-same").symlink_to("same")
    app = run_app(root, at="models")
    said = messages_in(app)
    assert "config.json: a pipe, socket or device" in said and "<b>*name* $x$" in said
    assert app.sidebar.selectbox(key="checkpoint_box").options == ["alpha", "same", "to-same"]
    app.switch_page("pages/attention_page.py").run()
    assert not app.error


def _class_of_elsewhere(folder: Path) -> None:
    """Add an object of a class as older versions of omegaconf left in checkpoints."""
    module = types.ModuleType("settings_of_then")
    kept = type("Kept", (), {"__module__": module.__name__})
    module.Kept = kept  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        content(lambda values: values.update(extra=kept()))(folder)
    finally:
        del sys.modules[module.__name__]


def test_a_file_that_a_safe_load_refuses_is_one_line_and_can_be_converted(
    run_app: RunApp, root: Path
) -> None:
    _class_of_elsewhere(root / "foreign" / "joeynmt")
    before = sorted(root.rglob("*"))
    app = run_app(root, at="models", format="joeynmt", folder="foreign/joeynmt", **{"as": "mine"})
    app.button(key="import_button").click().run()
    finished(app)
    (line,) = [each.value.replace("\\", "") for each in app.main.get("error")]
    assert line.startswith("foreign/joeynmt/7.ckpt: holds more than weights (settings_of_then.Kept")
    assert "python -m transformer import joeynmt --explain" in line
    assert "\n" not in line and str(root.parent) not in line
    assert sorted(root.rglob("*")) == before
    # The page has the command's output.
    script = next(each.value for each in app.code if "convert.py OLD NEW" in each.value)
    compile(script, "convert.py", "exec")
