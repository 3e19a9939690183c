"""Other tokenizers' pieces in this project's spelling; nothing here needs their library."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.huggingface.tokenizer import Style, byte_characters, rewritten, style_of
from transformer.measures.words import word_groups


def spelled(text: str) -> str:
    """A text as byte-level BPE writes it."""
    characters = {byte: character for character, byte in byte_characters().items()}
    return "".join(characters[byte] for byte in text.encode())


def test_every_byte_has_a_character_and_a_style_is_what_most_pieces_say() -> None:
    table = byte_characters()
    assert sorted(table.values()) == list(range(256))
    assert all(character.isprintable() and not character.isspace() for character in table)
    assert table["a"] == ord("a") and table["Ġ"] == ord(" ") and table["Ċ"] == ord("\n")
    assert style_of(["<s>", "▁a", "▁the", "Ġx"]) == "sentencepiece"
    assert style_of(["Ġthe", "Ġa", "##", "####", "a"]) == "bytes"
    assert style_of(["[CLS]", "a", "##b"]) == "wordpiece"
    assert style_of(["a</w>", "b"]) == "word_end"
    assert style_of(["a", "b", "##"]) == style_of([]) == "plain"


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_whole_characters_come_back_as_they_were(text: str) -> None:
    assert rewritten(spelled(text), "bytes") == text.replace(" ", "▁")


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
        ("dog</w>", "word_end", "dog"), ("▁dog", "sentencepiece", "▁dog"),
        ("<0xE2>", "sentencepiece", "<0xE2>"), ("\xc3", "raw_bytes", "<0xC3>"),
        (" ", "raw_bytes", "▁"), ("a b", "plain", "a▁b"), ("<b>", "plain", "<b>"),
    ],
)  # fmt: skip
def test_each_style(piece: str, style: Style, expected: str) -> None:
    assert rewritten(piece, style) == expected


def test_the_text_says_where_words_start() -> None:
    cut = [("didn", True), ("'", False), ("t", False), ("##s", False), ("(", True), ("a", False)]
    pieces = [rewritten(piece, "wordpiece", starts=starts) for piece, starts in cut]
    assert pieces == ["▁didn", "'", "t", "s", "▁(", "a"]
    assert word_groups(pieces) == ((0, 1, 2, 3), (4, 5))
    ended = [("play", True), ("ing</w>", False), ("dogs</w>", True)]
    assert [rewritten(piece, "word_end", starts=starts) for piece, starts in ended] == [
        "▁play", "ing", "▁dogs",
    ]  # fmt: skip
