"""JoeyNMT and fairseq models through the page's form: imported, and refused in one line."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.test_models_page import finished, opened, text_of
from tests.transformer.damage import content
from tests.transformer.importers.foreign import fairseq, joeynmt
from transformer.catalogue import inspect_entry

RunApp = Callable[..., AppTest]

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("no_import_outlives_its_test"),
]


@pytest.fixture
def root(tmp_path: Path, random_checkpoints: Path) -> Path:
    """A root with a checkpoint, and a folder of models to import."""
    root = tmp_path / "root"
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    joeynmt(root / "foreign" / "joeynmt", "pre-norm, other ids")
    fairseq(root / "foreign" / "fairseq", "post-norm, all shared")
    return root


def test_it_is_chosen_imported_used_and_seen(run_app: RunApp, root: Path) -> None:
    app = opened(run_app, root)
    for kind in ("joeynmt", "fairseq"):
        app.selectbox(key="format_widget").set_value(kind).run()
        assert app.selectbox(key="folder_box").options == [f"foreign/{kind}"]
    app.selectbox(key="folder_box").set_value("foreign/fairseq").run()
    app.text_input(key="as_widget").set_value("mine").run()
    app.button(key="import_button").click().run()
    finished(app)
    assert "Imported `foreign/fairseq` as **mine**" in text_of(app)
    assert inspect_entry(root / "mine").ok
    app.button(key="use_import").click().run()
    assert app.query_params["checkpoint"] == "mine"
    for page in ("attention", "head", "beam"):
        app.switch_page(f"pages/{page}_page.py").run()
        assert not app.exception and not app.error
    assert sorted(each.name for each in root.iterdir()) == ["alpha", "foreign", "mine"]


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
    app = opened(run_app, root, format="joeynmt", folder="foreign/joeynmt", **{"as": "mine"})
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
