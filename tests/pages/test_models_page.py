import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import go_to, messages_in, press
from tests.transformer.damage import content
from tests.transformer.models.huggingface.models import make_folder
from tests.transformer.models.importers.foreign import fairseq, joeynmt
from tests.transformer.site import NAME, Hub, serving
from transformer.models.catalogue import inspect_entry
from ui.frame import import_access
from ui.models import import_plan

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of transformers
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("no_job_outlives_its_test"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
    return folder


@pytest.fixture
def root(tmp_path: Path, random_checkpoints: Path, theirs: Path) -> Path:
    root = tmp_path / "root"
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    shutil.copytree(random_checkpoints / "cut", root / "cut")
    shutil.copytree(theirs, root / "foreign" / "theirs")
    joeynmt(root / "foreign" / "joeynmt", "pre-norm, other ids")
    fairseq(root / "foreign" / "fairseq", "post-norm, all shared")
    return root


def finished(app: AppTest) -> AppTest:
    job = app.session_state["headlight_import"]
    job.ended(300)
    assert not job.running
    return app.run()


def test_the_root_s_models_are_listed_or_why_not(run_app: RunApp, root: Path, theirs: Path) -> None:
    (root / "alpha" / "metrics.json").write_text('{"tests": {"a_test": {"bleu": 12.34}}}')
    (root / "alpha" / "README.md").write_text("# It\n<script>alert(1)</script>")
    for name in ("a-pipe", "<b>*name*\n$x$", "same"):
        shutil.copytree(root / "alpha", root / name)
    (root / "a-pipe" / "config.json").unlink()
    os.mkfifo(root / "a-pipe" / "config.json")
    (root / "<b>*name*\n$x$" / "config.json").write_text("{")
    (root / "to-same").symlink_to("same")
    shutil.copytree(theirs, root / "theirs")
    app = run_app(at="models")
    said = messages_in(app)
    for line in (
        "#### Translators", "**alpha**", "2+3 layers · d_model 24 · 3 heads",
        "12.3 sacreBLEU on a_test", "**cut** · cannot be used", "<b>*name* $x$",
        "model.safetensors: not a whole safetensors file",
        "config.json: a pipe, socket or device",
        "**theirs** · another library's model, not imported yet",
    ):  # fmt: skip
        assert line in said
    assert str(root.parent) not in said
    imported = {"imported": {"format": "marian", "source": "theirs"}}
    (root / "same" / "metrics.json").write_text(json.dumps(imported))
    assert "not imported yet" not in messages_in(run_app(at="models"))
    assert app.button(key="use_alpha").disabled
    assert app.sidebar.selectbox(key="checkpoint_box").options == ["alpha", "same", "to-same"]
    for shown in (True, False):
        app.button(key="card_alpha").click().run()
        assert [r"\<script\>" in each.value for each in app.markdown].count(True) == shown
        assert ("card" in app.query_params) == shown
    # A card that was written under another name shows under that of the folder, or of its link.
    (root / "same" / "README.md").write_text("# pub-de\n\nIts figures.\n")
    (root / "same" / "metrics.json").write_text('{"training": {}}')
    app.button(key="card_to-same").click().run()
    (text,) = (each.value for each in app.markdown if "Its figures" in each.value)
    assert text.startswith(r"#### to\-same") and "pub" not in text
    app.button(key="card_to-same").click().run()
    app.button(key="bring_theirs").click().run()
    assert app.selectbox(key="folder_box").value == "theirs"
    assert app.text_input(key="as_widget").value == "theirs-imported"
    assert app.button(key="import_button").label == r"Import as theirs\-imported"


def test_a_folder_is_imported_and_used(run_app: RunApp, root: Path) -> None:
    app = run_app(at="models")
    app.selectbox(key="format_widget").set_value("fairseq").run()
    assert app.selectbox(key="folder_box").options == ["foreign/fairseq"]
    app.selectbox(key="folder_box").set_value("foreign/fairseq").run()
    app.text_input(key="as_widget").set_value("mine").run()
    assert "from `foreign/fairseq`; takes up to" in messages_in(app)
    assert not (root / "mine").exists()
    app.button(key="import_button").click().run()
    finished(app)
    assert "Imported `foreign/fairseq` as **mine**" in messages_in(app)
    assert inspect_entry(root / "mine").ok
    assert sorted(each.name for each in root.iterdir()) == ["alpha", "cut", "foreign", "mine"]
    app.button(key="use_import").click().run()
    assert app.query_params["checkpoint"] == "mine"
    assert app.button_group(key="door_entry").value == "Step by step"
    go_to(app, "models")
    assert "imported from foreign/fairseq" in messages_in(app)
    go_to(app, "head")
    assert not app.error


def test_a_model_of_the_hub_is_imported_once_it_can_be_reached(
    run_app: RunApp, root: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = {"from": "hub", "hub": NAME, "as": "fetched"}
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    app = run_app(at="models", **query)
    assert app.text_input(key="hub_widget").disabled
    assert "HF_HUB_OFFLINE" in messages_in(app)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    press(app.run(), "Look up its size")
    assert f"{NAME}: the hub did not list it" in app.warning[0].value.replace("\\", "")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))  # of the process that imports
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("no_proxy", "*")
    with serving(Hub({each.name: each.read_bytes() for each in theirs.iterdir()})) as site:
        site.publish()
        monkeypatch.setenv("HF_ENDPOINT", site.home)
        app = run_app(at="models", **query)
        assert not site.asked  # a link alone starts nothing
        press(app, "Look up its size")
        assert "Downloads **" in messages_in(app)
        assert not any("resolve" in path for path in site.asked)
        app.button(key="import_button").click().run()
        finished(app)
    assert f"Imported `{NAME}` as **fetched**" in messages_in(app)
    assert inspect_entry(root / "fetched").ok


@pytest.mark.parametrize("query", [
    {"folder": "out", "as": "x"}, {"folder": "foreign/theirs", "as": "../x"},
    *({"checkpoint": name, "card": name[:200]}
      for name in ("cut", "out", "a\0b<script>" + "x" * 5_000, "alpha/../../x")),
])  # fmt: skip
def test_a_link_elsewhere_is_refused(run_app: RunApp, root: Path, query: dict[str, str]) -> None:
    (root / "out").symlink_to("/etc")
    app = run_app(at="models", **query)
    assert app.query_params["checkpoint"] == "alpha"
    (line,) = [each.value for each in (*app.main.get("warning"), *app.toast)]
    assert "\n" not in line and len(line) < 200
    assert str(root.parent) not in line.replace("\\", "")
    assert not [each for each in app.button if each.key == "import_button"]


def test_a_name_is_taken_while_it_is_imported_and_stopping_leaves_nothing(
    run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(root.rglob("*"))
    first, second = (
        run_app(at="models", folder="foreign/theirs", **{"as": "mine"}) for _ in range(2)
    )
    gate, adding = threading.Event(), import_plan.adding
    monkeypatch.setattr(import_plan, "adding", lambda name: gate.wait(100) and adding(name))
    first.button(key="import_button").click().run()
    assert "Importing `foreign/theirs` as **mine**" in messages_in(first)
    second.button(key="import_button").click().run()
    assert "mine is already being imported" in second.toast[0].value.replace("\\", "")
    first.button(key="stop_import").click()
    first.run()
    gate.set()
    finished(first)
    assert "Stopped. Nothing was kept." in messages_in(first)
    assert sorted(root.rglob("*")) == before
    first.button(key="again_import").click().run()
    assert first.selectbox(key="folder_box").value is None


def test_imports_need_a_token(run_app: RunApp, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = run_app(at="models", folder="foreign/theirs", **{"as": "mine"})
    monkeypatch.setenv("HEADLIGHT_IMPORT", "")
    app.run()
    assert not [each for each in app.button if each.key == "import_button"]
    app.text_input(key="import_token").input("x" * 32).run()
    assert "not this server" in app.toast[0].value
    app.text_input(key="import_token").input(f" {import_access.token()}").run()
    assert app.button(key="import_button")
    assert import_access.token() not in str(app.query_params)


def test_what_a_safe_load_refuses_can_be_converted(run_app: RunApp, root: Path) -> None:
    content(lambda values: values.update(extra=root))(root / "foreign" / "joeynmt")
    before = sorted(root.rglob("*"))
    app = run_app(at="models", format="joeynmt", folder="foreign/joeynmt", **{"as": "mine"})
    app.button(key="import_button").click().run()
    finished(app)
    (line,) = [each.value.replace("\\", "") for each in app.main.get("error")]
    assert line.startswith("foreign/joeynmt/7.ckpt: holds more than weights (pathlib")
    assert "python -m transformer import joeynmt --explain" in line
    assert "\n" not in line and str(root.parent) not in line
    assert sorted(root.rglob("*")) == before
    # The page has the command's output.
    script = next(each.value for each in app.code if "convert.py OLD NEW" in each.value)
    compile(script, "convert.py", "exec")
