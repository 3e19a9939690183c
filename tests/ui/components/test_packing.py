"""The message of a canvas component can be read back and needs no copy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.palette import THEMES, attention_table
from tests.messages import inflate, unpack
from ui.components import packing

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(header=st.dictionaries(st.text(), JSON, max_size=4), body=st.binary(max_size=40))
def test_what_goes_in_comes_out(header: dict[str, Any], body: bytes) -> None:
    message = packing.pack(header, body)
    assert unpack(message) == (header, body)
    assert (len(message) - len(body)) % 4 == 0


@given(
    header=st.dictionaries(st.text(), JSON, max_size=4),
    parts=st.lists(st.binary(max_size=2000), max_size=3),
)
def test_what_is_deflated_is_one_message(header: dict[str, Any], parts: list[bytes]) -> None:
    assert inflate(packing.deflate(header, *parts)) == (header, b"".join(parts))


def test_half_a_surrogate_pair_does_not_stop_the_page_and_no_number_is_refused() -> None:
    assert unpack(packing.pack({"token": "a\ud800"}, b""))[0] == {"token": "a?"}
    with pytest.raises(ValueError, match="JSON"):
        packing.pack({"x": float("nan")}, b"")


@given(JSON | st.floats())
def test_a_field_is_of_the_wanted_type_and_size(value: Any) -> None:
    found = packing.fields(
        {"a": value, "b": 2, "c": 1}, a=(None, "x", range(1, 3), False), b=range(3)
    )
    fine = (
        value is None or value is False or (type(value) is int and value in (1, 2)) or value == "x"
    )
    assert found == ({"a": value, "b": 2} if fine else None)
    assert packing.fields({}, a=range(3)) is None and packing.fields(value, b=range(3)) is None


def test_colours_are_the_palette() -> None:
    for theme in THEMES:
        text = packing.attention_colours()[theme]
        back = np.frombuffer(bytes.fromhex(text), dtype=np.uint8).reshape(256, 3)
        np.testing.assert_array_equal(back, attention_table(theme))


@pytest.mark.parametrize("value", [-1, 3, True, False, 0.0, "0", None, [0], float("nan")])
def test_only_an_integer_in_range_is_an_index(value: Any) -> None:
    assert packing.is_index(2, 3) and not packing.is_index(value, 3)
    assert packing.index_pair([2, 1], (3, 2)) == (2, 1)
    for pair in ([value, 0], [0, value], [0], [0, 0, 0], value):
        assert packing.index_pair(pair, (3, 3)) is None


def test_a_component_offline_has_its_choice_and_no_session() -> None:
    view = packing.Component("x", {"label": "y"}, b"z", choice=[0], parse=lambda reported: reported)
    header, body = unpack(view.offline(title="A").message)
    assert body == b"z"
    assert header == {"label": "y", "choice": [0], "count": 0, "session": "offline"}
    assert unpack(packing.Component("x", {"label": "y"}).message())[0] == {"label": "y"}
