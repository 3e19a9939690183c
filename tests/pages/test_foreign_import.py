"""JoeyNMT and fairseq models through the page's form: imported, refused, damaged, stopped."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.pages.test_models_page import finished, opened, text_of
from tests.transformer.damage import Damage, Evil, content
from tests.transformer.importers.foreign import fairseq, joeynmt
from transformer.catalogue import inspect_entry

RunApp = Callable[..., AppTest]

#: Models by name: format and shape.
MODELS = {
    "joeynmt-pre": ("joeynmt", "pre-norm, other ids"),
    "fairseq-post": ("fairseq", "post-norm, all shared"),
}
WEIGHTS = {"joeynmt": "7.ckpt", "fairseq": "checkpoint_best.pt"}
KEYS = {"joeynmt": "model_state", "fairseq": "model"}

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("no_import_outlives_its_test"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign-models")
    for name, (kind, shape) in MODELS.items():
        {"joeynmt": joeynmt, "fairseq": fairseq}[kind](folder / name, shape)
    return folder


@pytest.fixture
def root(tmp_path: Path, random_checkpoints: Path, theirs: Path) -> Path:
    """A root with a checkpoint, and a folder of models to import."""
    root = tmp_path / "root"
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    shutil.copytree(theirs, root / "foreign")
    return root


def filled(run_app: RunApp, root: Path, name: str, called: str = "mine") -> AppTest:
    """Return the form, filled in."""
    query = {"format": MODELS[name][0], "folder": f"foreign/{name}", "as": called}
    return opened(run_app, root, **query)


def buttons(app: AppTest) -> set[str | None]:
    return {each.key for each in app.button}


@pytest.mark.parametrize("name", MODELS)
def test_it_is_chosen_imported_used_and_seen(run_app: RunApp, root: Path, name: str) -> None:
    kind = MODELS[name][0]
    app = opened(run_app, root)
    app.selectbox(key="format_widget").set_value(kind).run()
    same = [f"foreign/{each}" for each, (other, _) in MODELS.items() if other == kind]
    assert app.selectbox(key="folder_box").options == sorted(same)
    app.selectbox(key="folder_box").set_value(f"foreign/{name}").run()
    app.text_input(key="as_widget").set_value("mine").run()
    assert f"from `foreign/{name}`; takes up to" in text_of(app)
    app.button(key="import_button").click().run()
    finished(app)
    assert f"Imported `foreign/{name}` as **mine**" in text_of(app)
    entry = inspect_entry(root / "mine")
    assert entry.ok and entry.config is not None
    assert entry.config.norm == name.partition("-")[2]
    app.button(key="use_import").click().run()
    assert app.query_params["checkpoint"] == "mine"
    for page in ("attention", "head", "beam"):
        app.switch_page(f"pages/{page}_page.py").run()
        assert not app.exception and not app.error
    assert sorted(each.name for each in root.iterdir()) == ["alpha", "foreign", "mine"]


def _class_of_elsewhere(folder: Path) -> None:
    """Return a class as older versions of omegaconf left in checkpoints; a safe load refuses it."""
    module = types.ModuleType("settings_of_then")
    kept = type("Kept", (), {"__module__": module.__name__})
    module.Kept = kept  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        content(lambda values: values.update(extra=kept()))(folder)
    finally:
        del sys.modules[module.__name__]


def _payload(folder: Path) -> None:
    (path,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
    trace = folder.parents[2] / "ran"
    torch.save({"args": Evil(trace), "model": {}, "model_state": {}}, path)


#: The fault, and the page's final message.
DAMAGED: dict[str, tuple[str, Damage, str]] = {
    "a class of elsewhere": (
        "joeynmt-pre", _class_of_elsewhere, "holds more than weights (settings_of_then.Kept",
    ),
    "a payload": ("fairseq-post", _payload, "holds more than weights"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_cannot_be_read_is_one_line_and_leaves_nothing(
    run_app: RunApp, root: Path, damage: str
) -> None:
    name, change, reason = DAMAGED[damage]
    change(root / "foreign" / name)
    before = sorted(root.rglob("*"))
    app = filled(run_app, root, name)
    app.button(key="import_button").click().run()
    finished(app)
    (line,) = [each.value.replace("\\", "") for each in app.main.get("error")]
    assert line.startswith(f"foreign/{name}/{WEIGHTS[MODELS[name][0]]}: ")
    assert reason in line and "\n" not in line
    assert str(root.parent) not in line
    assert sorted(root.rglob("*")) == before
    assert not (root.parent / "ran").exists()


def test_a_file_that_a_safe_load_refuses_can_be_converted(run_app: RunApp, root: Path) -> None:
    name, kind = "joeynmt-pre", "joeynmt"
    _class_of_elsewhere(root / "foreign" / name)
    app = filled(run_app, root, name)
    app.button(key="import_button").click().run()
    finished(app)
    line = app.main.get("error")[0].value.replace("\\", "")
    assert f"`python -m transformer import {kind} --explain` prints how to convert it" in line
    # The page has the command's output.
    script = next(each.value for each in app.code if "convert.py OLD NEW" in each.value)
    assert f"import {kind} DIR" in script
    compile(script, "convert.py", "exec")


@pytest.mark.parametrize("kind", ["joeynmt", "fairseq"])
def test_a_model_outside_the_roots_is_not_opened(
    run_app: RunApp, root: Path, theirs: Path, kind: str
) -> None:
    """By a link to a file of it; links to folders and paths are tested with the form."""
    name = next(name for name in MODELS if name.startswith(kind))
    shutil.copytree(theirs / name, root.parent / "out")
    inside = Path(shutil.copytree(theirs / name, root / "foreign" / "inside"))
    (inside / WEIGHTS[kind]).unlink()
    (inside / WEIGHTS[kind]).symlink_to(root.parent / "out" / WEIGHTS[kind])
    app = opened(run_app, root, format=kind, folder="foreign/inside", **{"as": "x"})
    (line,) = [each.value for each in app.main.get("warning")]
    assert "\n" not in line and str(root.parent) not in line.replace("\\", "")
    assert "import_button" not in {each.key for each in app.button}
