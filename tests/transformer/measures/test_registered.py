"""Measures of heads from outside."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headlight
from figures.tables import to_csv, to_npz
from tests.factories import make_trace
from transformer.errors import InputError
from transformer.measures.registered import MEASURES, load_measures, measured, register_measure
from ui.export.html import to_html


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = dict(MEASURES)
    yield
    MEASURES.clear()
    MEASURES.update(before)


def test_a_registered_measure_is_a_number_for_each_head() -> None:
    trace = make_trace(S=7, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=5)
    headlight.register_measure("peak", lambda maps: maps.max(-1).mean(-1))
    assert np.array_equal(measured("peak", trace.cross), trace.cross.max(-1).mean(-1))
    headlight.register_measure("peak", lambda maps: 3 - 9 * maps.min(axis=(-1, -2)))
    for kind in ("encoder_self", "decoder_self", "cross"):
        figure = headlight.found_heads(trace, "peak", kind)
        plain = 3 - 9 * trace.attention(kind).min(axis=(-1, -2))
        np.testing.assert_allclose(figure.arrays["values"], plain, rtol=1e-6)
        assert to_csv(figure) and to_npz(figure) and to_html(figure) and "peak" in figure.title


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (lambda maps: maps / 0 * "x", "failed: "),
        (lambda maps: [][5], "failed: IndexError: list index out of range"),
        (lambda maps: maps.max(), r"returned numbers \[\]; expected .* \[3, 5\]"),
        (lambda maps: maps.max(-1), r"returned numbers \[3, 5, 4\]; expected .* \[3, 5\]"),
        (lambda maps: maps[..., 0, 0] * np.nan, "returned NaN or infinity"),
        (lambda maps: maps.fill(0), "failed: ValueError: assignment destination is read-only"),
        (lambda maps: int("one\ntwo"), "ValueError: invalid literal"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_measure_that_fails_is_one_line(measure: Any, said: str) -> None:
    register_measure("mine", measure)
    maps = make_trace(S=6, T=4, n_decoder_layers=3, n_heads=5).cross
    maps.setflags(write=False)
    with pytest.raises(InputError, match=f"^measure “mine” .*{said}") as caught:
        measured("mine", maps)
    assert "\n" not in str(caught.value)


def test_names_and_functions_are_checked() -> None:
    for name in ("", "  ", "x" * 41, "a\nb"):
        with pytest.raises(InputError, match="a name is a text of 1 to 40 characters"):
            register_measure(name, np.max)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="5 is not a function of maps"):
        register_measure("five", 5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="measure “none” is not registered"):
        measured("none", np.zeros((1, 1, 2, 2), np.float32))
    with pytest.raises(InputError, match=r"no row of cross has the pattern 'previous'"):
        headlight.found_heads(make_trace(), "previous", "cross")


def test_modules_named_outside_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outside_one.py").write_text(
        "import headlight\nheadlight.register_measure('first key', lambda m: m[..., 0].mean(-1))\n"
    )
    (tmp_path / "outside_two.py").write_text("raise KeyError('no')\n")
    load_measures("")
    load_measures("outside_one, ")
    maps = make_trace().cross
    assert np.array_equal(measured("first key", maps), maps[..., 0].mean(-1))
    with pytest.raises(InputError, match=r"“outside_two” .* cannot be loaded: KeyError: 'no'"):
        load_measures("outside_one,outside_two")
    with pytest.raises(InputError, match=r"“not_there” .* ModuleNotFoundError"):
        load_measures("not_there")
    sys.modules.pop("outside_one")
