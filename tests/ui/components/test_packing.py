"""The message of a canvas component can be read back and needs no copy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.palette import THEMES, attention_table
from ui.components.packing import attention_colours, deflate, inflate, pack

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def unpack(message: bytes) -> tuple[Any, bytes]:
    length = int.from_bytes(message[:4], "little")
    return json.loads(message[4 : 4 + length]), message[4 + length :]


@given(header=st.dictionaries(st.text(), JSON, max_size=4), body=st.binary(max_size=40))
def test_what_goes_in_comes_out(header: dict[str, Any], body: bytes) -> None:
    message = pack(header, body)
    assert unpack(message) == (header, body)
    assert (len(message) - len(body)) % 4 == 0


@given(
    header=st.dictionaries(st.text(), JSON, max_size=4),
    parts=st.lists(st.binary(max_size=2000), max_size=3),
)
def test_what_is_deflated_in_parts_is_one_message(
    header: dict[str, Any], parts: list[bytes]
) -> None:
    assert inflate(deflate(header, *parts)) == (header, b"".join(parts))


def test_half_a_surrogate_pair_does_not_stop_the_page() -> None:
    header, _ = unpack(pack({"token": "a\ud800"}, b""))
    assert header == {"token": "a?"}


def test_what_json_cannot_carry_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack({"x": float("nan")}, b"")


def test_colours_are_the_palette() -> None:
    for theme in THEMES:
        text = attention_colours()[theme]
        back = np.frombuffer(bytes.fromhex(text), dtype=np.uint8).reshape(256, 3)
        np.testing.assert_array_equal(back, attention_table(theme))
