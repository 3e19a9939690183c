"""Torch files that a safe load refuses are converted as the message says."""

import runpy
import sys
import types
from pathlib import Path

import pytest
import torch

from tests.transformer.importers.foreign import MODELS, written
from transformer.__main__ import main
from transformer.errors import CheckpointError
from transformer.importers.registry import FORMATS
from transformer.importers.torch_content import explanation


@pytest.mark.parametrize("kind", MODELS)
def test_a_refused_file_can_be_converted_as_the_message_says(
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With classes of a package that is not installed at the conversion."""
    folder = tmp_path / "theirs"
    make, model, name = MODELS[kind]
    make(folder, model)
    path = folder / name
    values = written(path)
    module = types.ModuleType("omegaconf_of_then")

    class DictConfig:
        def __init__(self, content: object) -> None:
            self._content, self._metadata = content, {"ref": self}

    class AnyNode:
        def __init__(self, value: object) -> None:
            self._val = value

    for each in (DictConfig, AnyNode):
        each.__module__, each.__qualname__ = module.__name__, each.__name__
        setattr(module, each.__name__, each)
    sys.modules[module.__name__] = module
    try:
        values["extra_state"] = {"meter": AnyNode(3)}
        if kind == "fairseq":
            values["cfg"] = DictConfig({
                name: DictConfig({key: AnyNode(each) for key, each in vars(group).items()})
                for name, group in values["cfg"].items() if group is not None
            })  # fmt: skip
        torch.save(values, path)
    finally:
        del sys.modules[module.__name__]
    with pytest.raises(CheckpointError, match=r"omegaconf_of_then.* --explain` prints how"):
        FORMATS[kind].convert(folder, tmp_path / "ours")
    assert main(["import", kind, "--explain"]) == 0
    printed = capsys.readouterr().out
    assert printed == explanation(kind)
    (tmp_path / "convert.py").write_text(printed)
    monkeypatch.setattr("sys.argv", ["convert.py", str(path), str(tmp_path / "new")])
    runpy.run_path(str(tmp_path / "convert.py"))
    (tmp_path / "new").replace(path)
    assert FORMATS[kind].convert(folder, tmp_path / "ours").is_dir()
