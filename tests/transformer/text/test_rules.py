import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_models import SMALL
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.text.rules import LONGEST_WORD, Merges, RuleTokenizer, read_codes, read_tokenizer
from transformer.text.table import Numbered
from transformer.text.tokenizer import Preparation, TokenizerError
from transformer.translator import Translator

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
IDS = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3}
#: Learned by hand: low, lowest, new, newer share pieces.
PAIRS = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>"), ("lo", "w"), ("n", "e"), ("ne", "w"),
         ("e", "s"), ("es", "t</w>")]  # fmt: skip
WORDS = ("low", "low@@", "er", "est", "new@@", "l@@", "o@@", "w", "n@@", "e@@", "w@@", "s@@", "t",
         "x", "e", "r", "a", ",")  # fmt: skip


def tokenizer(unit: str = "merges", words: Sequence[str] = WORDS, **more: object) -> RuleTokenizer:
    table = [*SPECIAL, *words]
    config = ModelConfig(vocab_size=len(table), d_model=8, n_heads=1, **IDS)
    return RuleTokenizer(unit, table, config, **more)


BPE = tokenizer(merges=PAIRS)
APART = [("o", "w"), ("l", "ow"), ("low", "</w>")]


@pytest.mark.parametrize(("pairs", "options", "word", "cut"), [
    *((PAIRS, {}, word, cut) for word, cut in (
        ("low", "low"), ("lower", "low er"), ("newest", "new est"), ("newlow", "new low"),
        ("x", "x"), ("we", "w e"), ("lol", "lo l"),
    )),
    # An earlier merge goes first even where it spoils a longer piece.
    ([("b", "c"), ("a", "b"), ("ab", "c</w>")], {}, "abcx", "a bc x"),
    # Neighbours that overlap are merged from the left.
    ([("a", "a")], {}, "aaaab", "aa aa b"),
    ([("a", "a")], {}, "aaab", "aa a b"),
    # Of a repeated pair, the first counts.
    ([("a", "b"), ("b", "c"), ("a", "b")], {}, "abcx", "ab c x"),
    # Without a version, the mark of a word's end is a symbol of its own until it is merged.
    (APART, {"end_apart": True}, "low", "low"),
    (APART, {"end_apart": True}, "lowx", "low x"),
    (APART, {}, "low", "l o w"),
    # Merges that the vocabulary lacks are undone.
    (PAIRS, {"known": {"lo@@", "w", "er"}}, "low", "lo w"),
    (PAIRS, {"known": {"lo@@", "w", "er"}}, "lower", "lo w er"),
    (PAIRS, {"known": {"lo~~", "w"}, "joint": "~~"}, "low", "lo w"),
    (PAIRS, {"known": {"z"}}, "low", "l o w"),
    ([("a", "</w>")], {"end_apart": True, "known": {"z"}}, "ba", "b a"),
    # A word without end stays in characters.
    (PAIRS, {}, "low" * LONGEST_WORD, " ".join("low" * LONGEST_WORD)),
])  # fmt: skip
def test_merges(pairs: list[tuple[str, str]], options: dict[str, Any], word: str, cut: str) -> None:
    assert Merges(pairs, **options).cut(word) == tuple(cut.split())


def test_only_pieces_of_short_words_are_remembered() -> None:
    merges = Merges(PAIRS)
    for word in ("low", "low" * 40, "x" * 9_000):
        merges.cut(word)
    assert merges._cut.cache_info().currsize == 1


@given(st.text("lowern st", max_size=40), st.booleans(), st.booleans())
def test_pieces_are_the_words_letters(word: str, apart: bool, within: bool) -> None:
    merges = Merges(PAIRS, end_apart=apart, known=WORDS if within else ())
    assert "".join(merges.cut(word)) == word
    assert all(merges.cut(word)) or not word


def test_codes_as_both_programs_write_them() -> None:
    assert read_codes(b"#version: 0.2\nl o\nlo w</w>\n") == ([("l", "o"), ("lo", "w</w>")], False)
    assert read_codes(b"l o 123\nlo w</w> 45\n") == ([("l", "o"), ("lo", "w</w>")], False)
    assert read_codes(b"l o\r\nlo w</w>\r\n") == ([("l", "o"), ("lo", "w</w>")], True)
    assert read_codes("#version: 0.2\n\u2028 \u00a0\n".encode())[0] == [("\u2028", "\u00a0")]


@pytest.mark.parametrize(("data", "message"), [
    (b"", "line 1 is not a pair"), (b"#version: 0.3\na b\n", "not version"),
    (b"#version: 0.2\na b\nab\n", "line 3"), (b"a b 1\na b\n", "line 2"),
    (b"a b c\n", "line 1"), (b"\xff\xfe\n", "UTF-8"), (b"a  b\n", "line 1"),
    (b"#version:", "not version"),
])  # fmt: skip
def test_files_that_are_no_codes(data: bytes, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        read_codes(data)


def test_sentences_and_back() -> None:
    cut = BPE.tokenize("newer  low\tlowest q <unk> </s>")
    assert cut.pieces[:5] == ("▁new", "er", "▁low", "▁low", "est")
    assert [BPE.pieces[i] for i in cut.ids[:5]] == ["new@@", "er", "low", "low@@", "est"]
    assert cut.surfaces[:2] == ("new", "er")
    # Letters without a piece are unknown, as are typed special tokens.
    assert cut.pieces[5] == "▁q" and 5 in cut.unknown and not {0, 1, 2} & {*cut.ids}
    assert BPE.decode(BPE.encode("newer low lowest")) == "newer low lowest"
    assert BPE.decode([0, BPE.piece_to_id("new@@"), 2, 1]) == "new"
    assert "".join(cut.pieces) == BPE.normalize("newer  low\tlowest q <unk> </s>")
    assert "".join(BPE.tokenize("low@@ er").pieces) == BPE.normalize("low@@ er")
    assert BPE.tokenize(" ").ids == () and BPE.normalize("  ") == ""
    assert (BPE.kind, BPE.n_best("low", 3)) == ("merges", [])


def test_shown_pieces_start_words() -> None:
    ids = BPE.encode("newer low")
    assert BPE.shown((*ids, 2)) == ("▁new", "er", "▁low", "</s>")
    assert BPE.shown(ids[1:], after=ids[0]) == ("er", "▁low")
    assert BPE.shown(ids[1:], after=2) == ("▁er", "▁low")
    assert BPE.shown((3, ids[0])) == ("<unk>", "▁new")
    assert tokenizer("word", ("low", "new@@")).shown((4, 5, 2)) == ("▁low", "▁new@@", "</s>")
    marked = tokenizer("word", ("low@@", "er", "@@"), joint="@@")
    assert marked.shown((4, 5, 4, 5, 6)) == ("▁low", "er", "▁low", "er", "▁@@")
    assert marked.tokenize("low@@ er er").pieces == ("▁low", "er", "▁er")
    assert marked.normalize("low@@ er er") == "▁lower▁er"
    assert marked.decode([4, 5, 5]) == "lower er"
    letters = tokenizer("char", ("▁", "a", "b"))
    assert letters.shown(letters.encode("ab a")) == ("a", "b", "▁", "a")


def test_words_and_characters_and_merges_of_others() -> None:
    words = tokenizer("word", ("new@@", "er", "low"))
    assert words.encode("new@@ er low") == [4, 5, 6]
    assert words.decode([4, 5, 6, 3, 2]) == "new@@ er low <unk>"
    letters = tokenizer("char", ("▁", "a", "b"))
    assert letters.encode("ab  a") == [5, 6, 4, 5] and letters.decode([5, 6, 4, 5]) == "ab a"
    assert letters.normalize("ab a") == "ab▁a"
    assert letters.tokenize("a?").unknown == (1,)
    with pytest.raises(TokenizerError, match=r"only 0 of the 8 pieces .* to different models"):
        tokenizer(words=("katze", "hund"), merges=PAIRS)


def test_text_is_prepared_and_joined_again() -> None:
    moses = Preparation(moses="en", dash_splits=True, lowercase=True)
    table = ("it", "&apos;s", "well", "@-@", "known", ",", "really", ".")
    prepared = tokenizer("word", table, preparation=moses)
    ids = prepared.encode("It's well-known, really.")
    assert ids == list(range(4, 12))
    assert prepared.decode(ids) == "it's well-known, really."
    normalised = Preparation(normalise=True)
    assert normalised("“Ａ  b ?”") == '"A b?"'
    assert normalised.undo("a b ?") == "a b?"
    assert Preparation.of(moses.settings()) == moses
    assert Preparation()("as  it\u200f is") == "as  it\u200f is"


def test_rules_of_moses_ask_for_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(TokenizerError, match=r"^needs sacremoses: pip install \.\[evaluate\]$"):
        Preparation.of({"moses": "de"})


def again(one: Numbered) -> Numbered:
    files = one.files()
    config = ModelConfig(
        vocab_size=one.vocab_size, d_model=8, n_heads=1, tgt_vocab_size=one.target.vocab_size,
        tie_embeddings="none", **IDS,
    )  # fmt: skip
    read = read_tokenizer(files, files.__getitem__, config)
    assert isinstance(read, Numbered) and read.files() == files
    return read


def test_files_hold_it_whole() -> None:
    assert again(BPE).encode("newest low") == BPE.encode("newest low")
    target = tokenizer("word", ("Katze", "."), preparation=Preparation(moses="de"))
    both = again(tokenizer(merges=PAIRS, within=True, end_apart=True, target=target))
    assert both.settings["within"] and both.settings["end_apart"]
    assert both.target.encode("Katze.") == [4, 5]
    assert both.target is not both and both.target.kind == "word"
    same_rules = again(tokenizer(merges=PAIRS, target=tokenizer(words=WORDS[:9], merges=PAIRS)))
    assert same_rules.target.vocab_size == 13


@pytest.mark.parametrize("change", [
    {"unit": "spm"}, {"unit": None}, {"merges": [["a"]]}, {"merges": "ab"}, {"merges": [[1, 2]]},
    {"tags": 3}, {"tags": [1]}, {"separator": ["x"]}, {"added": ["<x>"] * 2_001},
    {"joint": ""}, {"joint": 3}, {"within": 1}, {"end_apart": "no"}, {"more": 1},
    *({"preparation": wrong} for wrong in (
        3, [], {"moses": "../../en"}, {"moses": 3}, {"moses": "EN"}, {"lowercase": 1},
        {"run": True},
    )),
])  # fmt: skip
def test_rules_that_are_none(change: dict[str, object]) -> None:
    files = BPE.files()
    rules = json.loads(files["tokenizer_rules.json"]) | change
    files["tokenizer_rules.json"] = json.dumps(rules).encode()
    config = ModelConfig(vocab_size=BPE.vocab_size, d_model=8, n_heads=1, **IDS)
    with pytest.raises(TokenizerError, match=r"tokenizer_rules\.json: "):
        read_tokenizer(files, files.__getitem__, config)


def test_a_trace_marks_where_words_start() -> None:
    torch.manual_seed(3)
    size = BPE.vocab_size
    model = Transformer(
        SMALL.replace(vocab_size=size, max_positions=40, tie_embeddings="none", **IDS)
    )
    torch.nn.init.normal_(model.generator.weight, std=2.0)
    translator = Translator(model, BPE, device="cpu")
    trace = translator.trace("newer low", beam_size=3, max_length=12)
    assert trace.src_tokens == ("▁new", "er", "▁low", "</s>")
    assert trace.predicted_tokens == BPE.shown(trace.predicted_ids)
    assert trace.tgt_tokens == BPE.shown(trace.tgt_ids)
    words = [token for token in trace.predicted_tokens if token.startswith("▁")]
    inside = [at for at, index in enumerate(trace.tgt_ids) if BPE.pieces[index].endswith("@@")]
    assert words and inside  # this model writes pieces of both kinds
    for before, row, ids in zip(trace.tgt_ids, trace.top_tokens, trace.top_ids, strict=True):
        assert row == tuple(BPE.shown((index,), before)[0] for index in ids)
    for hypothesis in trace.search.hypotheses:
        assert hypothesis.tokens == BPE.shown(hypothesis.ids)
    rows = {0: -1}
    for step in trace.search.steps:
        for choice in step.candidates:
            before = rows[choice.parent]
            assert choice.token == BPE.shown((choice.token_id,), None if before < 0 else before)[0]
        rows = {choice.row: choice.token_id for choice in step.candidates if choice.row >= 0}
    follow = translator.trace("newer low", target="lowest")
    assert follow.predicted_tokens == ("▁low", "est", "</s>")
    (found,) = translator.translate([BPE.encode("newer low")], 3, max_length=12)
    assert found.tokens == BPE.shown(found.ids)
    assert translator.read(BPE.encode("newer")).pieces == ("▁new", "er", "</s>")
