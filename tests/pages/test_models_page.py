"""The Models page: its list, imports, and paths that are never opened."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.transformer.huggingface.models import make_folder
from tests.transformer.importers.hub_site import NAME, Hub, serving
from transformer.catalogue import inspect_entry
from ui.frame import import_access
from ui.models import import_jobs

RunApp = Callable[..., AppTest]

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
    """A root with a checkpoint, a broken one, and a model to import."""
    root = tmp_path / "root"
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    shutil.copytree(random_checkpoints / "cut", root / "cut")
    shutil.copytree(theirs, root / "foreign" / "theirs")
    return root


def opened(run_app: RunApp, root: Path, **query: str) -> AppTest:
    return run_app(root, at="models", **query)


def text_of(app: AppTest) -> str:
    kinds = ("markdown", "caption", "text", "warning", "error", "info", "success", "code")
    found = [each.value for kind in kinds for each in app.main.get(kind)]
    return "\n".join(found).replace("\\", "")


def finished(app: AppTest) -> AppTest:
    """Wait for the import that this session began."""
    job = app.session_state["headlight_import"]
    job.ended(300)
    assert not job.running
    return app.run()


def test_what_is_here_is_listed_with_what_is_known(run_app: RunApp, root: Path) -> None:
    metrics = {"tests": {"a_test": {"bleu": 12.34, "chrf": "x"}, "b": {"bleu": float("nan")}}}
    (root / "alpha" / "metrics.json").write_text(json.dumps(metrics))
    app = opened(run_app, root)
    said = text_of(app)
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
    app = opened(run_app, root)
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


def test_a_folder_is_imported_and_used(run_app: RunApp, root: Path) -> None:
    app = opened(run_app, root)
    assert app.selectbox(key="folder_box").options == ["foreign/theirs"]
    app.selectbox(key="folder_box").set_value("foreign/theirs").run()
    app.text_input(key="as_widget").set_value("mine").run()
    said = text_of(app)
    assert "from `foreign/theirs`; takes up to" in said
    assert "on disk" in said and "of memory" in said
    assert not (root / "mine").exists()
    app.button(key="import_button").click().run()
    finished(app)
    assert "Imported `foreign/theirs` as **mine**" in text_of(app)
    assert inspect_entry(root / "mine").ok
    assert not [each.name for each in root.iterdir() if each.name.startswith(".")]
    app.button(key="use_import").click().run()
    assert app.query_params["checkpoint"] == "mine"
    assert "imported from foreign/theirs" in text_of(app)


def test_a_model_that_lies_in_the_root_fills_the_form(
    run_app: RunApp, root: Path, theirs: Path
) -> None:
    shutil.copytree(theirs, root / "theirs")
    app = opened(run_app, root)
    assert "**theirs** · another library's model, not imported yet" in text_of(app)
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
        app = opened(run_app, root, **{"from": "hub", "hub": NAME, "as": "fetched"})
        assert not site.asked  # a link alone starts nothing
        ask = next(each for each in app.button if each.label == "Look up its size")
        ask.click().run()
        assert "Downloads **" in text_of(app)
        assert not any("resolve" in path for path in site.asked)
        app.button(key="import_button").click().run()
        finished(app)
    assert f"Imported `{NAME}` as **fetched**" in text_of(app)
    assert inspect_entry(root / "fetched").ok


def test_a_hub_that_is_out_of_reach_is_one_line(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    app = opened(run_app, root, **{"from": "hub", "hub": "owner/name", "as": "x"})
    next(each for each in app.button if each.label.startswith("Look up")).click().run()
    assert not app.exception
    assert "owner/name: the hub did not give it" in app.warning[0].value.replace("\\", "")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    app.run()
    assert app.text_input(key="hub_widget").disabled
    assert "Not available: the hub is switched off by HF_HUB_OFFLINE" in text_of(app)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("out", "x"), ("foreign/../..", "x"), ("foreign/theirs", "../x")],
)
def test_folders_that_are_not_opened_and_names_that_are_not_taken(
    run_app: RunApp, root: Path, folder: str, name: str
) -> None:
    (root / "out").symlink_to(root.parent.parent)
    app = opened(run_app, root, folder=folder, **{"as": name})
    (line,) = [each.value for each in app.main.get("warning")]
    assert "\n" not in line
    assert str(root.parent) not in line.replace("\\", "")
    assert not [each for each in app.button if each.key == "import_button"]


def test_of_two_sessions_with_one_name_one_wins(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        opened(run_app, root, folder="foreign/theirs", **{"as": "mine"}) for _ in range(2)
    )
    gate = threading.Event()
    real = import_jobs.check_room
    monkeypatch.setattr(import_jobs, "check_room", lambda plan: (gate.wait(100), real(plan)))
    first.button(key="import_button").click().run()
    assert "Importing `foreign/theirs` as **mine**" in text_of(first)
    second.button(key="import_button").click().run()
    assert not second.exception
    assert "mine is already being imported" in second.toast[0].value.replace("\\", "")
    gate.set()
    finished(first)
    assert "Imported" in text_of(first)
    second.run()
    assert "mine already exists; choose another" in text_of(second)


def test_an_import_is_stopped_and_leaves_nothing(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(root.rglob("*"))
    app = opened(run_app, root, folder="foreign/theirs", **{"as": "mine"})
    gate = threading.Event()
    monkeypatch.setattr(import_jobs, "check_room", lambda plan: gate.wait(100))
    app.button(key="import_button").click().run()
    app.button(key="stop_import").click()
    app.run()
    gate.set()
    finished(app)
    assert "Stopped. Nothing was kept." in text_of(app)
    assert sorted(root.rglob("*")) == before
    app.button(key="again_import").click().run()
    assert app.selectbox(key="folder_box").value is None


def test_a_public_server_offers_no_import(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(run_app, root, folder="foreign/theirs", **{"as": "mine"})
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
    app = opened(run_app, root, checkpoint=name, card=name[:200])
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
    app = opened(run_app, root)
    said = text_of(app)
    assert "config.json: a pipe, socket or device" in said and "<b>*name* $x$" in said
    assert app.sidebar.selectbox(key="checkpoint_box").options == ["alpha", "same", "to-same"]
    app.switch_page("pages/attention_page.py").run()
    assert not app.exception
    assert not app.error
