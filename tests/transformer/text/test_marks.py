"""Other tokenizers' pieces in this project's spelling."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.measures.words import word_groups
from transformer.text.marks import SPECIAL, Style, byte_characters, marked, style_of, visible


def rewritten(piece: str, style: Style) -> str:
    return marked((piece,), style)[0]


def spelled(text: str) -> str:
    """A text as byte-level BPE writes it."""
    characters = {byte: character for character, byte in byte_characters().items()}
    return "".join(characters[byte] for byte in text.encode())


def test_there_is_a_character_for_every_byte() -> None:
    table = byte_characters()
    assert sorted(table.values()) == list(range(256))
    assert all(character.isprintable() and not character.isspace() for character in table)
    assert table["a"] == ord("a") and table["Ġ"] == ord(" ") and table["Ċ"] == ord("\n")


@settings(max_examples=40)
@given(st.text(min_size=1), st.data())
def test_wherever_bytes_are_cut_the_parts_spell_the_text(text: str, data: st.DataObject) -> None:
    text = "".join(each for each in text if each.isprintable() and each not in "▁<>")
    whole = spelled(text)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=3)))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    pieces = [rewritten(part, "bytes") for part in parts]
    named = re.split("<0x([0-9A-F]{2})>", "".join(pieces))
    data_again = b"".join(
        bytes([int(each, 16)]) if at % 2 else each.encode() for at, each in enumerate(named)
    )
    assert data_again.decode() == text.replace(" ", "▁")


@pytest.mark.parametrize(
    ("piece", "style", "expected"),
    [
        ("ĠStraÃŁe", "bytes", "▁Straße"), ("Ċ", "bytes", "<0x0A>"), ("âĤ", "bytes", "<0xE2><0x82>"),
        ("<|im start|>Ω", "bytes", "<|im▁start|>Ω"), ("ĠĠ", "bytes", "▁▁"),
        ("##ing", "wordpiece", "ing"), ("the", "wordpiece", "▁the"), (".", "wordpiece", "."),
        ("##", "wordpiece", "▁##"), ("#", "wordpiece", "#"), ("###", "wordpiece", "#"),
        ("dog</w>", "word_end", "▁dog"), ("dog▁", "word_end", "▁dog"),
        ("</w>", "word_end", "▁</w>"),
        ("▁dog", "sentencepiece", "▁dog"), ("<0xE2>", "sentencepiece", "<0xE2>"),
        ("\xc3", "raw_bytes", "<0xC3>"), (" ", "raw_bytes", "▁"), (" a b", "spaced", "▁a▁b"),
        ("<b>", "plain", "▁<b>"), ("play@@", "joined", "▁play"), ("￭s", "joined", "s"),
        ("@@", "joined", "▁@@"), ("a\u2028\x9b", "spaced", "a<0xE2><0x80><0xA8><0xC2><0x9B>"),
    ],
)  # fmt: skip
def test_each_style(piece: str, style: Style, expected: str) -> None:
    assert rewritten(piece, style) == expected


def test_the_text_says_where_words_start() -> None:
    cut = [("didn", True), ("'", False), ("t", False), ("##s", False), ("(", True), ("a", False)]
    names, starts = zip(*cut, strict=True)
    pieces = [*marked(names, "wordpiece", starts=starts)]
    assert pieces == ["▁didn", "'", "t", "s", "▁(", "a"]
    assert word_groups(pieces) == ((0, 1, 2, 3), (4, 5))


@pytest.mark.parametrize(
    ("style", "pieces", "expected"),
    [
        ("word_end", "play ing</w> dogs</w>", "▁play ing ▁dogs"),
        ("joined", "play@@ ing dogs a ￭ b ￭, c", "▁play ing ▁dogs ▁a ￭ b , ▁c"),
        ("joined", "<s> play@@ </s> ing @-@ dogs", "<s> ▁play </s> ▁ing ▁@-@ ▁dogs"),
        ("bytes", "The Ġcaf Ã©", "The ▁caf é"),
        ("plain", "<s> The dog", "<s> ▁The ▁dog"),
    ],
)
def test_marks_of_one_piece_tell_of_the_next(style: Style, pieces: str, expected: str) -> None:
    names = pieces.split(" ")
    special = {at for at, name in enumerate(names) if SPECIAL.fullmatch(name)}
    assert " ".join(marked(names, style, special=special)) == expected
    for at in range(1, len(names)):  # a piece by itself, after another
        after = None if at - 1 in special else names[at - 1]
        one = marked(names[at : at + 1], style, special={0} if at in special else (), after=after)
        assert one[0] == expected.split(" ")[at]


def test_special_tokens_are_known_by_name() -> None:
    for name in ("<s>", "[MASK]", "<extra_id_7>", "__de__", "deu_Latn", ">>fra<<", "<2de>"):
        assert SPECIAL.fullmatch(name), name
    for name in ("▁s", "<b>", "__init__", "de_de", ">>", "[a]"):
        assert not SPECIAL.fullmatch(name), name


@given(st.text())
def test_a_piece_is_one_line_without_controls(text: str) -> None:
    assert visible(text).isprintable() or not text.isascii()
    assert " " not in visible(text) and len(visible(text).splitlines()) <= 1


def test_a_style_is_what_most_pieces_say() -> None:
    assert style_of(["<s>", "▁a", "▁the", "Ġx"]) == "sentencepiece"
    assert style_of(["Ġthe", "Ġa", "##", "####", "a"]) == "bytes"
    assert style_of(["[CLS]", "a", "##b"]) == "wordpiece"
    assert style_of(["a</w>", "b"]) == style_of(["▁", "a▁", "the▁"]) == "word_end"
    assert style_of(["play@@", "ing", "@@"]) == style_of(["dog", "￭s"]) == "joined"
    assert style_of([" the", "a"]) == "spaced"
    assert style_of(["a", "b", "##"]) == style_of([]) == "plain"
