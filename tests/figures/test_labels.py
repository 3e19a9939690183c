"""Token text is shown as it is, never as markup."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.labels import (
    ARROW,
    READS_PREDICTS,
    escape_plotly,
    plain_token,
    query_labels,
    row_labels,
    show_token,
)
from tests.factories import make_trace
from transformer.types import ATTENTION_KINDS


@given(st.text(max_size=60))
def test_escaping_can_be_undone_and_leaves_nothing_to_format(text: str) -> None:
    escaped = escape_plotly(text)
    assert not set(escaped) & set("<>$")
    undone = escaped.replace("&#36;", "$").replace("&gt;", ">").replace("&lt;", "<")
    assert undone.replace("&amp;", "&") == text


@given(st.text(max_size=300), st.integers(4, 40))
def test_labels_are_short_visible_and_keep_their_direction(token: str, limit: int) -> None:
    label = show_token(token, limit)
    inner = label.removeprefix("\u2068").removesuffix("\u2069")
    assert 0 < len(inner) <= limit
    assert (label != inner) == any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in inner)
    for character in inner:
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        # Direction marks and other invisible characters; a joiner inside emoji may stay.
        assert unicodedata.category(character) != "Cf" or character == "\u200d"


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("▁the", "▁the"), ("a\nb", "a↵b"), ("\t", "⇥"), (" ", "␣"), ("\x00", "␀"),
        ("\x7f", "[U+007F]"), ("\u202e", "[U+202E]"), ("", "∅"), ("</s>", "</s>"),
        ("👩\u200d💻", "👩\u200d💻"), ("שלום", "\u2068שלום\u2069"), ("\ud800", "[U+D800]"),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_named(token: str, shown: str) -> None:
    assert show_token(token) == shown


def test_a_decoder_row_is_named_by_what_it_reads_and_predicts() -> None:
    reads, predicts = ("<s>", "▁weil", "▁es"), ("▁weil", "▁es", "</s>")
    assert row_labels(reads, predicts) == ("<s> → ▁weil", "▁weil → ▁es", "▁es → </s>")
    assert row_labels(reads) == reads  # what follows is unknown
    assert row_labels(["reads"], ["predicts"])[0] == READS_PREDICTS
    with pytest.raises(ValueError, match="shorter"):
        row_labels(reads, predicts[1:])
    label = row_labels(["a" * 60], ["\u05d0" * 3])[0]  # both are shown, and both of their ends
    assert show_token(label, 5) == "aa…aa → \u2068\u05d0\u05d0\u05d0\u2069"
    assert plain_token("▁weil → ▁es") == "_weil → _es"
    trace = make_trace(S=5, T=4)
    labels = {kind: query_labels(trace, kind) for kind in ATTENTION_KINDS}
    assert labels["encoder_self"] == trace.src_tokens
    assert labels["cross"] == labels["decoder_self"]
    shown, next_ones = zip(*(each.split(ARROW) for each in labels["cross"]), strict=True)
    assert (shown, next_ones) == (trace.tgt_tokens, trace.predicted_tokens)
    assert shown[1:] == next_ones[:-1]  # shifted right
