"""Only paths in a checkpoint root are opened, however they are spelled."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer.errors import CheckpointError
from ui.work.roots import checkpoint_roots, checkpoints_root, shown, within_roots, without_root


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two roots with a model each, beside a folder that must not be read."""
    first, second, secret = (tmp_path / name for name in ("first", "second", "secret"))
    for folder in (first / "one", second / "two", secret):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", f"{first}{os.pathsep}{second}")
    return first, second


def refusal(path: str | Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        within_roots(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def test_without_a_variable_the_root_lies_beside_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "", os.pathsep):
        if value is None:
            monkeypatch.delenv("HEADLIGHT_CHECKPOINTS", raising=False)
        else:
            monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", value)
        assert checkpoint_roots() == (Path(__file__).resolve().parents[3] / "checkpoints",)


def test_several_roots_are_named_as_in_path(roots: tuple[Path, Path]) -> None:
    assert checkpoint_roots() == roots
    assert checkpoints_root() == roots[0]


def test_a_relative_root_is_meant_from_where_the_app_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", "models")
    assert checkpoint_roots() == (tmp_path / "models",)


def test_what_lies_inside_is_found_by_either_spelling(roots: tuple[Path, Path]) -> None:
    first, second = roots
    for path in ("one", first / "one", first / "two" / ".." / "one", "./one"):
        assert within_roots(path) == first / "one"
    assert within_roots("two") == within_roots(second / "two") == second / "two"
    assert within_roots("one/config.json") == first / "one" / "config.json"
    # A path that does not exist yet may be written.
    assert within_roots("new") == first / "new"
    assert within_roots("~") == first / "~"  # a name like any other


@pytest.mark.parametrize(
    "path",
    [
        "../secret", "../../etc", "/etc", "/etc/passwd", "one/../../secret", "", ".", "..",
        "one/..", "one\0", "a" * 5_000, "a" * 300, "/" * 3, "~/..", "\ud800",
        "one/" + "../" * 50 + "etc",
    ],
)  # fmt: skip
def test_what_lies_outside_is_refused_in_one_line(roots: tuple[Path, Path], path: str) -> None:
    message = refusal(path)
    assert "first/" in message
    assert str(roots[0].parent) not in message


def test_a_root_is_not_a_checkpoint(roots: tuple[Path, Path]) -> None:
    assert "outside" in refusal(roots[0])


def test_a_neighbour_whose_name_begins_like_a_root_is_outside(roots: tuple[Path, Path]) -> None:
    beside = roots[0].with_name("first-and-more")
    beside.mkdir()
    assert "outside" in refusal(beside)


def test_links_are_followed_before_they_are_judged(roots: tuple[Path, Path]) -> None:
    first, second = roots
    (first / "inwards").symlink_to(second / "two")
    assert within_roots("inwards") == second / "two"
    (first / "outwards").symlink_to(first.parent / "secret")
    assert "outside" in refusal("outwards")
    assert "outside" in refusal("outwards/config.json")
    (first / "one" / "model.safetensors").symlink_to(first.parent / "secret" / "config.json")
    said = refusal("one")
    assert said.startswith("one/model.safetensors: a link that leads outside")
    (first / "loop").symlink_to(first / "loop")
    with contextlib.suppress(CheckpointError):
        assert not within_roots("loop").exists()


def test_a_root_that_is_a_link_itself_is_followed(
    roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named").symlink_to(roots[0])
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path / "named"))
    assert within_roots("one") == roots[0] / "one"
    assert within_roots(tmp_path / "named" / "one") == roots[0] / "one"


def test_messages_do_not_name_the_folders_of_the_machine(roots: tuple[Path, Path]) -> None:
    first, second = roots
    said = without_root(f"{first}/one/config.json: wrong; {second}/two: wrong; {first}: wrong")
    assert said == "one/config.json: wrong; two: wrong; first: wrong"
    assert shown("a\nb\u202ec") == "a�b�c"
    assert len(shown("x" * 200)) == 100


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(st.sampled_from(["..", ".", "", "one", "two", "secret", "~", "\0"]), max_size=8)
        .map("/".join),
    )
)  # fmt: skip
def test_whatever_is_asked_for_it_ends_below_a_root_or_is_refused(
    roots: tuple[Path, Path], path: str
) -> None:
    message, found = "", None
    try:
        found = within_roots(path)
    except CheckpointError as error:
        message = str(error)
    assert "\n" not in message
    assert str(roots[0].parent) not in message
    assert found is None or any(root in found.resolve().parents for root in roots)
