"""The Translate page's sentences."""

from __future__ import annotations

import dataclasses

import pytest

from tests.factories import make_trace
from ui.translate.words import length_warning, unknown_pieces

TRACE = make_trace()


@pytest.mark.parametrize(
    ("tokens", "unknown", "expected"),
    [
        (["▁", "漢字", "</s>"], (1,), ["漢字"]),
        (["▁", *(f"<0x{b:02X}>" for b in "漢字".encode()), "</s>"], range(1, 7), ["漢字"]),
        (["<0x3C>", "b", "<0x3E>", "b", "<0x3C>", "</s>"], (0, 2, 4), ["<", ">"]),
        (["<0xE6>", "a", "<0xC3>", "<0xB1>", "é", "</s>"], (0, 2, 3, 4), ["\ufffd", "ñ", "é"]),
        (["a", "</s>"], (), []),
    ],
)
def test_what_is_not_known_is_named_as_it_was_typed(
    tokens: list[str], unknown: tuple[int, ...], expected: list[str]
) -> None:
    other = dataclasses.replace(TRACE, src_tokens=tuple(tokens), src_unknown=tuple(unknown))
    assert unknown_pieces(other) == expected


def test_a_source_longer_than_the_training_text_is_warned_of() -> None:
    length = len(TRACE.src_tokens) - len(TRACE.src_special)

    def warning(longest: object) -> str:
        record = {"kind": "everyday sentences", "src_tokens": longest}
        return length_warning({"training_text": record}, TRACE)

    assert warning(length) == warning("1") == length_warning({}, TRACE) == ""
    assert f"has {length} tokens" in warning(length - 1)
    assert f"have at most {length - 1}." in warning(length - 1)
