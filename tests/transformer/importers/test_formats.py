"""The formats that can be imported: one list for the command line and the app."""

from pathlib import Path

import pytest

from tests.transformer.huggingface.models import make_folder
from tests.transformer.importers.foreign import MODELS
from transformer.__main__ import main
from transformer.catalogue import inspect_entry
from transformer.errors import CheckpointError
from transformer.importers.registry import FORMATS, put_in_place

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


def test_a_folder_is_known_by_the_names_of_its_files(tmp_path: Path) -> None:
    make_folder(tmp_path / "theirs", "separate vocabularies")
    assert [each.name for each in FORMATS.values() if each.fits(tmp_path / "theirs")] == ["marian"]
    (tmp_path / "theirs" / "source.spm").unlink()
    assert not any(each.fits(tmp_path / "theirs") for each in FORMATS.values())
    assert not FORMATS["marian"].fits(tmp_path / "nowhere")


def test_an_import_says_how_far_it_is_and_can_be_stopped(tmp_path: Path) -> None:
    make_folder(tmp_path / "theirs", "separate vocabularies")
    heard: list[tuple[int, int]] = []
    FORMATS["marian"].convert(
        tmp_path / "theirs", tmp_path / "ours", report=lambda *how_far: heard.append(how_far)
    )
    assert inspect_entry(tmp_path / "ours").ok
    assert heard == sorted(heard)
    assert len({most for _, most in heard}) == 1
    assert all(done < most for done, most in heard)

    class Stopped(BaseException):
        pass

    def stop(done: int, most: int) -> None:
        if done > most // 2:
            raise Stopped

    with pytest.raises(Stopped):
        FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "again", report=stop)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours", "theirs"]


def test_of_two_imports_with_one_name_one_wins(tmp_path: Path) -> None:
    """The other finds the name taken only at its end, and leaves the folder alone."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who").write_text(name)
    put_in_place(tmp_path / "first", tmp_path / "ours")
    with pytest.raises(CheckpointError, match="exists already") as caught:
        put_in_place(tmp_path / "second", tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "ours" / "who").read_text() == "first"


MARIAN = (make_folder, "separate vocabularies", "")


@pytest.mark.parametrize("kind", FORMATS)
def test_the_command_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, theirs = tmp_path / "new" / "ours", tmp_path / "theirs"
    make, model, name = {**MODELS, "marian": MARIAN}[kind]
    make(theirs, model)
    assert main(["import", kind, str(theirs / name), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    arguments = ["translate", "--checkpoint", str(out), "--beam", "1", "A dog", "", "--device"]
    assert main([*arguments, "cpu"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    for source, to in ((theirs, out), (tmp_path / "nowhere", tmp_path / "x")):
        assert main(["import", kind, str(source), "--out", str(to)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "wrong",
    [["import", "fairseq"], ["import", "joeynmt", "x", "--out", "y", "--moses"],
     ["import", "marian", "--explain"]],
)  # fmt: skip
def test_a_wrong_command(wrong: list[str]) -> None:
    assert main(wrong) == 2
