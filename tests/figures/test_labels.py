"""Token text is shown as it is, never as markup."""

import re
import string
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures import labels
from figures.labels import ARROW, code, plain, row_labels, show_token
from tests.factories import make_trace
from transformer.types import ATTENTION_KINDS


@pytest.mark.parametrize(("write", "given", "written"), [
    (labels.signed, (-1.234, -0.001, 0.5), ("−1.23", "0.00", "0.50")),
    (labels.probability, (0.0, -2.4, -20.0), ("100%", "9.1%", "<0.1%")),
    (labels.percent, (1.0, 0.9337, 0.00099), ("100.0%", "93.4%", "<0.1%")),
    (lambda n: labels.count(n, "token"), (0, 1, 2048), ("0 tokens", "1 token", "2,048 tokens")),
    (labels.parameters, (48_211, 100_000, 64_960_000), ("48k", "0.1M", "65.0M")),
    (labels.in_words, (28_202_280, 999), ("28.2 million", "999")),
    (labels.decimal, (2.3e-6, 0.25, 0.0), ("0.000002", "0.2", "0")),
    (lambda x: labels.decimal(x, 2), (100.0, 36.4, 0.00515), ("100", "36", "0.0052")),
    (labels.in_bytes, (5, 1_500, 312_000_000, 9e9), ("5 bytes", "1.5 kB", "312 MB", "9.0 GB")),
])  # fmt: skip
def test_numbers(
    write: Callable[[Any], str], given: tuple[float, ...], written: tuple[str, ...]
) -> None:
    assert tuple(map(write, given)) == written


#: Text full of the characters of Markdown and Streamlit's directives.
nasty = st.text(alphabet=st.one_of(st.sampled_from("`*_$:[]()<>!#\\ \n|~a:red"), st.characters()))


@given(nasty)
def test_plain_escapes_every_mark_and_reads_back_as_typed(text: str) -> None:
    shown, mark = plain(text), r"\\([!-/:-@\[-`{-~])"
    assert "\n" not in shown and not set(re.sub(mark, "", shown)) & set(string.punctuation)
    read = re.sub(mark, r"\1", shown).replace("\u2060", "")
    assert read == " ".join(text.split()).replace("\u2060", "")


def test_plain_breaks_emoji_codes_and_directives() -> None:
    assert plain(":smile:") == "\\:\u2060smile\\:"
    assert plain(":red[x]") == r"\:red\[x\]"
    assert plain("<b>") == r"\<b\>"


@given(nasty)
def test_code_holds_the_text_between_fences_that_it_does_not_contain(text: str) -> None:
    span = code(text, limit=1000)
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    line = " ".join(text.split())
    assert inner in (line, f" {line} ")


@given(st.text(), st.integers(1, 30))
def test_shorten_keeps_the_limit(text: str, limit: int) -> None:
    short = labels.shorten(text, limit)
    assert len(short) <= limit
    assert short == text or short.endswith("…")


@given(st.text(max_size=60))
def test_escaping_can_be_undone_and_leaves_nothing_to_format(text: str) -> None:
    escaped = labels.escape_plotly(text)
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


@pytest.mark.parametrize(("token", "shown"), [
    ("▁the", "▁the"), ("a\nb", "a↵b"), ("\t", "⇥"), (" ", "␣"), ("\x00", "␀"),
    ("\x7f", "[U+007F]"), ("\u202e", "[U+202E]"), ("", "∅"), ("</s>", "</s>"),
    ("👩\u200d💻", "👩\u200d💻"), ("שלום", "\u2068שלום\u2069"), ("\ud800", "[U+D800]"),
])  # fmt: skip
def test_what_cannot_be_seen_is_named(token: str, shown: str) -> None:
    assert show_token(token) == shown


def test_a_decoder_row_is_named_by_what_it_reads_and_predicts() -> None:
    reads, predicts = ("<s>", "▁weil", "▁es"), ("▁weil", "▁es", "</s>")
    assert row_labels(reads, predicts) == ("<s> → ▁weil", "▁weil → ▁es", "▁es → </s>")
    assert row_labels(reads) == reads  # what follows is unknown
    assert row_labels(["reads"], ["predicts"])[0] == labels.READS_PREDICTS
    with pytest.raises(ValueError, match="shorter"):
        row_labels(reads, predicts[1:])
    label = row_labels(["a" * 60], ["\u05d0" * 3])[0]  # both are shown, and both of their ends
    assert show_token(label, 5) == "aa…aa → \u2068\u05d0\u05d0\u05d0\u2069"


def test_a_long_token_does_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(labels, "_shown", lambda part, limit: kept.append(part) or part)
    show_token("x" * 10_000 + ARROW + "y" * 30, 24)
    assert [len(part) for part in kept] == [48, 30]
    assert labels.plain_token("▁weil → ▁es") == "_weil → _es"
    trace = make_trace(S=5, T=4)
    named = {kind: labels.query_labels(trace, kind) for kind in ATTENTION_KINDS}
    assert named["encoder_self"] == trace.src_tokens
    assert named["cross"] == named["decoder_self"]
    shown, next_ones = zip(*(each.split(labels.ARROW) for each in named["cross"]), strict=True)
    assert (shown, next_ones) == (trace.tgt_tokens, trace.predicted_tokens)
    assert shown[1:] == next_ones[:-1]  # shifted right
