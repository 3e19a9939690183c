import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.forks import ROOT
from transformer.types import CheckpointError
from ui.work.roots import checkpoint_roots, checkpoints_root, shown, within_roots, without_root


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second, secret = (tmp_path / name for name in ("first", "second", "secret"))
    for folder in (first / "one", second / "two", secret):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", f"{first}{os.pathsep}{second}")
    return first, second


def test_roots_are_named_as_in_path_and_lie_beside_the_app_by_default(
    roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checkpoint_roots() == roots and checkpoints_root() == roots[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", "models")  # of where the app was started
    assert checkpoint_roots() == (tmp_path / "models",)
    (tmp_path / "named").symlink_to(roots[0])
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path / "named"))
    assert within_roots("one") == within_roots(tmp_path / "named" / "one") == roots[0] / "one"
    for value in ("", os.pathsep):
        monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", value)
        assert checkpoint_roots() == (ROOT / "checkpoints",)


def test_paths_inside_are_found_by_either_spelling(roots: tuple[Path, Path]) -> None:
    first, second = roots
    for path in ("one", first / "one", first / "two" / ".." / "one", "./one"):
        assert within_roots(path) == first / "one"
    assert within_roots("two") == within_roots(second / "two") == second / "two"
    # A path that does not exist yet may be written, and ~ is a name like any other.
    for path in ("one/config.json", "new", "~"):
        assert within_roots(path) == first / path


@pytest.mark.parametrize("path", [
    "../secret", "../../etc", "/etc", "/etc/passwd", "one/../../secret", "", ".", "..",
    "one/..", "one\0", "a" * 5_000, "a" * 300, "/" * 3, "~/..", "\ud800",
    "one/" + "../" * 50 + "etc", "{first}", "{first}-and-more", "outwards",
    "outwards/config.json", "odd",
])  # fmt: skip
def test_paths_outside_are_refused_in_one_line(roots: tuple[Path, Path], path: str) -> None:
    first, second = roots
    first.with_name("first-and-more").mkdir()
    (first / "inwards").symlink_to(second / "two")
    (first / "outwards").symlink_to(first.parent / "secret")
    (first / "odd").mkdir()
    (first / "odd" / "model.safetensors").symlink_to(first.parent / "secret" / "config.json")
    with pytest.raises(CheckpointError) as caught:
        within_roots(path.replace("{first}", str(first)))
    said = str(caught.value)
    assert "\n" not in said and len(said) < 400 and str(first.parent) not in said
    if path == "odd":
        assert said.startswith("odd/model.safetensors: a link that leads outside")
    else:
        assert "first/" in said and ("outside" in said or not path.startswith(("{", "out")))
    assert within_roots("inwards") == second / "two"
    (first / "loop").symlink_to(first / "loop")
    with contextlib.suppress(CheckpointError):
        assert not within_roots("loop").exists()


def test_messages_do_not_name_the_folders_of_the_machine(roots: tuple[Path, Path]) -> None:
    first, second = roots
    said = without_root(f"{first}/one/config.json: wrong; {second}/two: wrong; {first}: wrong")
    assert said == "one/config.json: wrong; two: wrong; first: wrong"
    assert shown("a\nb\u202ec") == "a�b�c"
    assert len(shown("x" * 200)) == 100


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(st.sampled_from(["..", ".", "", "one", "two", "secret", "~", "\0"]), max_size=8)
        .map("/".join),
    )
)  # fmt: skip
def test_any_path_ends_below_a_root_or_is_refused(roots: tuple[Path, Path], path: str) -> None:
    message, found = "", None
    try:
        found = within_roots(path)
    except CheckpointError as error:
        message = str(error)
    assert "\n" not in message
    assert str(roots[0].parent) not in message
    assert found is None or any(root in found.resolve().parents for root in roots)
