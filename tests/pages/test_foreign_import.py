"""JoeyNMT and fairseq models through the page's form: imported, refused, damaged, stopped."""

from __future__ import annotations

import pickle
import shutil
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.pages.test_models_page import finished, opened, text_of
from tests.transformer.damage import Damage, Evil, content
from tests.transformer.importers.foreign import FAIRSEQ, JOEYNMT, fairseq, joeynmt
from transformer.catalogue import inspect_entry
from ui.models import import_jobs

RunApp = Callable[..., AppTest]

#: Models by name: format and shape. Post- and pre-norm of both kinds.
MODELS = {
    "joeynmt-post": ("joeynmt", "post-norm, separate"),
    "joeynmt-pre": ("joeynmt", "pre-norm, other ids"),
    "fairseq-post": ("fairseq", "post-norm, all shared"),
    "fairseq-pre": ("fairseq", "pre-norm, nothing shared"),
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


def test_every_shape_of_the_tests_is_one_of_the_two_norms() -> None:
    assert all(shape in {"joeynmt": JOEYNMT, "fairseq": FAIRSEQ}[kind]
               for kind, shape in MODELS.values())  # fmt: skip


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


def _weights(values: dict[str, object]) -> dict[str, torch.Tensor]:
    return next(values[key] for key in KEYS.values() if key in values)  # type: ignore[return-value]


def _not_a_number(values: dict[str, object]) -> None:
    next(each for name, each in _weights(values).items() if "fc1" in name or "pwff" in name).view(
        -1
    )[3] = float("nan")


def _half(folder: Path) -> None:
    (path,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


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


def _bare_payload(folder: Path) -> None:
    (path,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
    path.write_bytes(pickle.dumps(Evil(folder.parents[2] / "ran")))


#: The fault, and the page's final message.
DAMAGED: dict[str, tuple[Damage, str]] = {
    "a NaN": (content(_not_a_number), "holds NaN or infinite values"),
    "half of the file": (_half, "not a whole torch file"),
    "a class of elsewhere": (_class_of_elsewhere, "holds more than weights (settings_of_then.Kept"),
    "a payload": (_payload, "holds more than weights"),
    "a bare payload": (_bare_payload, "holds more than weights"),
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("name", ["joeynmt-pre", "fairseq-post"])
def test_what_cannot_be_read_is_one_line_and_leaves_nothing(
    run_app: RunApp, root: Path, name: str, damage: str
) -> None:
    change, reason = DAMAGED[damage]
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
    app.switch_page("pages/attention_page.py").run()
    assert not app.exception and not app.error


@pytest.mark.parametrize("name", ["joeynmt-post", "fairseq-pre"])
def test_a_file_that_a_safe_load_refuses_can_be_converted(
    run_app: RunApp, root: Path, name: str
) -> None:
    kind = MODELS[name][0]
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


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("joeynmt-pre", "src_vocab.txt", "not a JoeyNMT model: src_vocab.txt is missing"),
        ("joeynmt-pre", "config.yaml", "config.yaml is missing; it needs"),
        ("fairseq-post", "dict.en.txt", "dict.en.txt: the file is missing"),
        ("fairseq-post", "checkpoint_best.pt", "*.pt is missing"),
    ],
)
def test_a_folder_that_lacks_a_file(
    run_app: RunApp, root: Path, name: str, file: str, reason: str
) -> None:
    """Reported at once if the file names show it, else by the import."""
    (root / "foreign" / name / file).unlink()
    app = filled(run_app, root, name)
    if "import_button" in buttons(app):
        app.button(key="import_button").click().run()
        finished(app)
    (line,) = [each.value.replace("\\", "") for kind in ("warning", "error")
               for each in app.main.get(kind)]  # fmt: skip
    assert line.startswith(f"foreign/{name}")
    assert reason in line
    assert not (root / "mine").exists()


@pytest.mark.parametrize("kind", ["joeynmt", "fairseq"])
@pytest.mark.parametrize(
    "folder", ["/etc", "../out", "foreign/../../out", "link", "foreign/inside", "nowhere", "alpha"]
)
def test_folders_that_are_not_opened(
    run_app: RunApp, root: Path, theirs: Path, kind: str, folder: str
) -> None:
    """A model outside the roots is not opened, by path or through a link to it or to a file."""
    shutil.copytree(theirs / f"{kind}-pre", root.parent / "out")
    (root / "link").symlink_to(root.parent / "out")
    inside = Path(shutil.copytree(theirs / f"{kind}-pre", root / "foreign" / "inside"))
    (inside / WEIGHTS[kind]).unlink()
    (inside / WEIGHTS[kind]).symlink_to(root.parent / "out" / WEIGHTS[kind])
    app = opened(run_app, root, format=kind, folder=folder, **{"as": "x"})
    (line,) = [each.value for each in app.main.get("warning")]
    assert "\n" not in line
    assert str(root.parent) not in line.replace("\\", "")
    assert "import_button" not in buttons(app)


@pytest.mark.parametrize("name", ["joeynmt-pre", "fairseq-post"])
@pytest.mark.parametrize("called", ["alpha", "foreign", "..", "../x", "a/b", "x.", ""])
def test_names_that_are_not_taken(run_app: RunApp, root: Path, name: str, called: str) -> None:
    app = filled(run_app, root, name, called)
    assert len(app.main.get("warning")) == int(called != "")
    assert "import_button" not in buttons(app)


@pytest.mark.parametrize("name", ["joeynmt-post", "fairseq-pre"])
def test_an_import_is_stopped_half_way(
    run_app: RunApp, root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped among the tensors: nothing is left behind."""
    before = sorted(root.rglob("*"))
    reached, gate = threading.Event(), threading.Event()
    real = import_jobs.Job._report

    def report(job: import_jobs.Job, done: int, most: int) -> None:
        if job.phase == "reading" and done == 5 < most:
            real(job, done, most)
            reached.set()
            assert gate.wait(100)
        real(job, done, most)

    monkeypatch.setattr(import_jobs.Job, "_report", report)
    app = filled(run_app, root, name)
    app.button(key="import_button").click().run()
    assert reached.wait(100)
    app.run()
    assert f"Importing `foreign/{name}` as **mine**" in text_of(app)
    app.button(key="stop_import").click()
    app.run()
    gate.set()
    finished(app)
    assert "Stopped. Nothing was kept." in text_of(app)
    assert sorted(root.rglob("*")) == before
