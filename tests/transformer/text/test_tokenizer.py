import io
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece as spm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tiny_models import SENTENCES
from transformer.config import ModelConfig
from transformer.measures.words import group_labels, word_groups
from transformer.text.marks import (
    SPECIAL,
    Style,
    as_unknown,
    byte_characters,
    decoded,
    is_unknown,
    marked,
    style_of,
    unmarked,
    visible,
)
from transformer.text.table import Marks, TableTokenizer
from transformer.text.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIAL_PIECES,
    UNK_ID,
    Tokenizer,
    TokenizerError,
    clean,
    train_tokenizer,
)

UNIGRAM = train_tokenizer(SENTENCES, 110)
BYTES = train_tokenizer(SENTENCES, 330, byte_fallback=True)
BPE = train_tokenizer(SENTENCES, 110, model_type="bpe")
TOKENIZERS = {"unigram": UNIGRAM, "byte fallback": BYTES, "bpe": BPE}

#: Any text, lone surrogates, control characters and unassigned code points included.
ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=40)

AWKWARD = (
    "", " ", "\t\n\r\x0b\x0c", "\x00\x07\x1b[31m", "\ud800", "a\udfffb",
    "\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd", "שלום עולם", "\u202eevil\u202c text",
    "\u00e9 e\u0301 \ufb01 \u00bd \u2167", "a\u200bb\u00adc\ufeffd", "日本語の文", "▁a▁ b",
    "<s> </s> <unk> <pad> <0x41>", "\U0010ffff\ufffe", "<script>alert(1)</script>", "a" * 3_000,
    "\u2028x\u2029",
)  # fmt: skip


def examples(test: Callable[..., None]) -> Callable[..., None]:
    for text in AWKWARD:
        test = example(text=text)(test)
    return test


def without_spaces(text: str) -> str:
    """Normalise text as SentencePiece compares it: NFKC, without white space or `▁`."""
    text = unicodedata.normalize("NFKC", text.replace("▁", " "))
    return "".join(c for c in text if not c.isspace() and c not in "\u200c\u200d\ufeff")


@pytest.mark.parametrize("name", TOKENIZERS)
@examples
@given(text=ANY_TEXT)
def test_any_text_comes_back_or_is_reported(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    tokenized = tokenizer.tokenize(text)
    assert len(tokenized.pieces) == len(tokenized.ids) == len(tokenized.surfaces)
    assert list(tokenized.ids) == tokenizer.encode(text) == tokenizer.encode_many([text])[0]
    assert all(0 <= index < tokenizer.vocab_size for index in tokenized.ids)
    assert not {PAD_ID, BOS_ID, EOS_ID} & set(tokenized.ids)
    assert without_spaces("".join(tokenized.surfaces)) == without_spaces(clean(text))
    lost = {index for index, token in enumerate(tokenized.ids) if token == UNK_ID}
    assert lost <= set(tokenized.unknown)
    if not lost:
        assert without_spaces(tokenizer.decode(tokenized.ids)) == without_spaces(clean(text))


@examples
@given(text=ANY_TEXT)
def test_clean_text_is_one_printable_line(text: str) -> None:
    cleaned = clean(text)
    assert cleaned == cleaned.strip() == clean(cleaned) and "  " not in cleaned
    cleaned.encode("utf-8")  # no lone surrogates are left
    assert not {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, cleaned))


def test_unknown_characters_are_named_and_needed_ones_kept() -> None:
    tokenized = UNIGRAM.tokenize("A дог runs.")
    assert [tokenized.surfaces[index] for index in tokenized.unknown] == ["дог"]
    assert [tokenized.ids[index] for index in tokenized.unknown] == [UNK_ID]
    tokenized = BYTES.tokenize("A дог runs. 👍")
    assert UNK_ID not in tokenized.ids
    assert BYTES.decode(tokenized.ids) == "A дог runs. 👍"
    assert len(tokenized.unknown) == 3 * 2 + 4  # bytes of the Cyrillic letters and the emoji
    assert "".join(tokenized.surfaces[index] for index in tokenized.unknown) == "дог👍"
    assert clean("👩‍👩‍👧") == "👩‍👩‍👧" and clean("می‌خواهم") == "می‌خواهم"
    assert clean("Stra\u00adße\u200b\u202e!") == "Straße!" and clean("cafe\u0301") == "café"


def test_special_pieces_have_their_ids_and_parts_their_likeliest() -> None:
    for tokenizer in TOKENIZERS.values():
        assert tokenizer.pieces[:4] == SPECIAL_PIECES
        assert [tokenizer.piece_to_id(piece) for piece in SPECIAL_PIECES] == [0, 1, 2, 3]
    assert (UNIGRAM.pad_id, UNIGRAM.bos_id, UNIGRAM.eos_id, UNIGRAM.unk_id) == (0, 1, 2, 3)
    assert UNIGRAM.piece_to_id("no such piece") == UNK_ID
    assert UNIGRAM.id_to_piece(4) == UNIGRAM.pieces[4]
    ids = UNIGRAM.encode("A dog runs.")
    assert UNIGRAM.decode([BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]) == "A dog runs."
    for text in SENTENCES:
        assert UNIGRAM.segment(UNIGRAM.normalize(text)) == UNIGRAM.encode(text)
        assert not UNIGRAM.tokenize(text).unknown and UNIGRAM.decode(UNIGRAM.encode(text)) == text
    assert [UNIGRAM.id_to_piece(index) for index in UNIGRAM.segment("o")] == ["o"]


def test_a_file_is_read_back_named_if_it_is_none_or_refused_if_it_is_cut(tmp_path: Path) -> None:
    path, whole = tmp_path / "tokenizer.model", UNIGRAM.to_bytes()
    for content in (None, b"", b"no model", b"\x00" * 100):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(TokenizerError) as caught:
            Tokenizer.load(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    path.write_bytes(whole)
    loaded = Tokenizer.load(path)
    assert loaded.pieces == UNIGRAM.pieces and loaded.to_bytes() == whole
    for end in range(0, len(whole), len(whole) // 25):
        try:
            tokenizer = Tokenizer(whole[:end])
        except TokenizerError:
            continue
        tokenizer.tokenize(SENTENCES[0])


def test_too_few_or_too_many_pieces() -> None:
    with pytest.raises(TokenizerError, match="Vocabulary size too high"):
        train_tokenizer(SENTENCES, 5_000)
    with pytest.raises(TokenizerError, match="smaller than required_chars"):
        train_tokenizer(SENTENCES, 20)
    assert 110 <= train_tokenizer(SENTENCES, 5_000, fewer=True).vocab_size < 200
    with pytest.raises(TokenizerError, match=r"character_coverage=0.95 .* from 0.98 to 1"):
        train_tokenizer(SENTENCES, 100, character_coverage=0.95)


def test_characters_and_case_and_long_lines() -> None:
    # SentencePiece skips lines of more than 4,192 bytes by default.
    long = "a line with one ñ at the end, " * 300 + "ñ"
    assert train_tokenizer([*SENTENCES, long], 120, fewer=True).tokenize("ñ").unknown == ()
    tokenizer = train_tokenizer(["abc", "CBA"], 50, model_type="char", casefold=True)
    assert tokenizer.vocab_size == 4 + 1 + 3  # special pieces, the space mark, three letters
    assert tokenizer.encode("Abc") == tokenizer.encode("aBC")
    assert len(tokenizer.encode("abc")) == 4
    assert tokenizer.tokenize("abd").unknown == (3,)


def rewritten(piece: str, style: Style) -> str:
    return marked((piece,), style)[0]


def spelled(text: str) -> str:
    """Return text in the byte-level BPE alphabet."""
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
    text = "".join(sign for sign in text if sign.isprintable() and sign not in "▁<>")
    whole = spelled(text)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=3)))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    named = re.split("<0x([0-9A-F]{2})>", "".join([rewritten(part, "bytes") for part in parts]))
    parts_again = (bytes([int(s, 16)]) if at % 2 else s.encode() for at, s in enumerate(named))
    assert b"".join(parts_again).decode() == text.replace(" ", "▁")


@pytest.mark.parametrize(("piece", "style", "expected"), [
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
])  # fmt: skip
def test_each_style(piece: str, style: Style, expected: str) -> None:
    assert rewritten(piece, style) == expected


def test_the_text_says_where_words_start() -> None:
    names, starts = ("didn", "'", "t", "##s", "(", "a"), (True, False, False, False, True, False)
    pieces = [*marked(names, "wordpiece", starts=starts)]
    assert pieces == ["▁didn", "'", "t", "s", "▁(", "a"]
    assert word_groups(pieces) == ((0, 1, 2, 3), (4, 5))


@pytest.mark.parametrize(("style", "pieces", "expected"), [
    ("word_end", "play ing</w> dogs</w>", "▁play ing ▁dogs"),
    ("word_end", "▁ dog ▁ s▁ a▁", "▁ dog ▁ s ▁a"),
    ("joined", "play@@ ing dogs a ￭ b ￭, c", "▁play ing ▁dogs ▁a ￭ b , ▁c"),
    ("joined", "<s> play@@ </s> ing @-@ dogs", "<s> ▁play </s> ▁ing ▁@-@ ▁dogs"),
    ("bytes", "The Ġcaf Ã©", "The ▁caf é"),
    ("plain", "<s> The dog", "<s> ▁The ▁dog"),
])  # fmt: skip
def test_marks_of_one_piece_tell_of_the_next(style: Style, pieces: str, expected: str) -> None:
    names = pieces.split(" ")
    special = {at for at, name in enumerate(names) if SPECIAL.fullmatch(name)}
    assert " ".join(marked(names, style, special=special)) == expected
    for at in range(1, len(names)):  # a piece by itself, after another
        after = None if at - 1 in special else names[at - 1]
        one = marked(names[at : at + 1], style, special={0} if at in special else (), after=after)
        assert one[0] == expected.split(" ")[at]


def test_no_text_looks_like_a_mark_of_unknown_text() -> None:
    for text in ("⁇T", "▁⁇", "<unk>", "a ⁇"):
        assert not is_unknown(visible(text)) and is_unknown(as_unknown(text))
        assert unmarked([as_unknown(text), visible(text)]) == (visible(text),) * 2
    spelled = [f"<0x{byte:02X}>" for byte in "⁇".encode()]
    assert decoded([*spelled, as_unknown("▁x")]) == ["[U+2047]", "", "", "▁⁇x"]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_spaces_at_the_end_of_pieces(kind: str) -> None:
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=written, vocab_size=110, model_type=kind,
        hard_vocab_limit=False, treat_whitespace_as_suffix=True, minloglevel=2, num_threads=1,
    )  # fmt: skip
    own = Tokenizer(written.getvalue())
    table = ["<s>", "<pad>", "</s>", "<unk>", ">>fra<<", *own.pieces[3:]]
    config = ModelConfig(
        vocab_size=len(table), d_model=8, n_heads=1, bos_id=0, pad_id=1, eos_id=2, unk_id=3
    )
    marks = Marks(tags=(">>fra<<",))
    for tokenizer in (own, TableTokenizer(written.getvalue(), table, config, marks=marks)):
        for text in SENTENCES:
            cut = tokenizer.tokenize(text)
            assert [*group_labels(cut.pieces, word_groups(cut.pieces))] == text.split()
            assert tokenizer.shown(cut.ids) == cut.pieces
            for at, index in enumerate(cut.ids[1:], 1):
                assert tokenizer.shown([index], cut.ids[at - 1]) == cut.pieces[at : at + 1]
    assert tokenizer.tokenize(">>fra<<A dog").pieces[:2] == (
        ">>fra<<", tokenizer.tokenize("A dog").pieces[0],
    )  # fmt: skip


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
