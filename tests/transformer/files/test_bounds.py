"""Small files that would take hours, gigabytes or the whole stack, for every reader.

SECURITY.md lists the limits.
"""

import base64
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from tests.transformer.files.test_npz import archive, member
from transformer.config import parse_json
from transformer.files.npz import read_npz
from transformer.files.safe import read_text
from transformer.files.torch_file import read_torch
from transformer.models.importers.joeynmt import read_settings
from transformer.models.importers.torch_content import read_content
from transformer.text.limits import check_pattern, check_tokenizer_json
from transformer.text.rules import read_codes
from transformer.text.tokenizer import Tokenizer

Read = Callable[[Path], object]


def sentencepiece(change: Callable[[Any], object], more: bytes = b"") -> Callable[[bytes], bytes]:
    def changed(model: bytes) -> bytes:
        proto = ModelProto.FromString(model)
        change(proto)
        return bytes(proto.SerializeToString()) + more

    return changed


def characters(text: bytes) -> bytes:
    """Return a table of characters with an empty trie of 256 nodes."""
    return struct.pack("<L", 1024) + bytes(1024) + text + b"\0"


def zipped(content: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("a/data.pkl", content)
    return held.getvalue()


def two_directories(content: bytes, other: bytes) -> bytes:
    """Return an archive with two directories: `zipfile` reads the second, torch the first."""
    archives = map(zipped, (content, other))
    parts = [(data[: (at := data.index(b"PK\x01\x02"))], data[at:-22]) for data in archives]
    (body, listed), (hidden, relisted) = parts
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(relisted), len(body), 0)
    return body + listed + hidden + relisted + end


def tokenizer(**parts: Any) -> bytes:
    return json.dumps({"version": "1.0", "model": {"type": "BPE"}, **parts}).encode()


CALL = b"\x80\x02c__builtin__\nbytearray\nM\x00\x10\x85R."
PAIRS = b"\x80\x02Nq\x00" + b"".join(b"h%ch%c\x86q%c" % (a, a, b) for a, b in pairwise(range(26)))
DOUBLING = "a0: &a0 {x: 1}\n" + "".join(
    f"a{new}: &a{new} {{<<: [*a{old}, *a{old}]}}\n" for old, new in pairwise(range(9))
)
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
SELF_TEST = b"\x22\x05\x0a\x03\x0a\x01a"  # field 4 of a model: a sample, its input


def yaml(path: Path) -> object:
    return read_settings(path).whole("a")


def json_file(path: Path) -> object:
    return parse_json(path.read_bytes())


def npz(path: Path) -> object:
    return read_npz(path, ["a"])


def pattern(path: Path) -> object:
    return check_pattern(path.read_text())


def tokenizer_json(path: Path) -> object:
    return check_tokenizer_json(path.read_bytes())


def fairseq(path: Path) -> object:
    return read_content(path, "fairseq")


def codes(path: Path) -> object:
    return read_codes(path.read_bytes())


#: By what grows: the reader, the file, and the reason it is refused.
FILES: dict[str, tuple[Read, bytes, str]] = {
    "yaml time, merge keys": (yaml, DOUBLING.encode(), "merge keys"),
    "yaml count, digits": (yaml, b"a: 0x" + b"f" * 9_000, "more than 15 digits"),
    "yaml count, base 60": (yaml, b"a: 1" + b":59" * 900 + b".5", "too large to convert"),
    "json memory, values": (json_file, b"[" + b"[]," * 600_000 + b"1]", "more than 1,000,000"),
    "json depth": (json_file, b"[" * 102 + b"]" * 102, "nested too deeply"),
    "npz depth, negations": (npz, member(header=b"-" * 9_000 + b"1"), "nested too deeply"),
    "text count, lines": (read_text, b"\n" * 1_000_001, "more than 1,000,000 lines"),
    "text memory, bytes": (read_text, b"x" * (2**24 + 1), "are allowed"),
    "codes count, lines": (codes, b"a b\n" * 1_000_001, "more than 1,000,000 lines"),
    "torch memory, a pickle and a directory": (read_torch, CALL + zipped(b""), "__builtin__.byte"),
    "torch memory, two directories": (read_torch, two_directories(CALL, pickle.dumps({}, 2).ljust(
        len(CALL))), "without a plain end"),
    "torch time, a key of pairs of pairs": (read_torch, zipped(PAIRS + b"}h\x19Ns."), "too large"),
    "torch time, a set of pairs of pairs": (
        fairseq, zipped(PAIRS + b"c__builtin__\nset\n]h\x19a\x85R."), "too large"),
    "torch depth": (read_torch, zipped(b"\x80\x02}N" + b"\x85" * 201 + b"Ns."), "nested too"),
    **{
        f"pattern time, {text}": (pattern, text.encode(), "may take too long")
        for text in ("(a+)+$", "(a|a)*b", "((a+))*", "a*a*[bc]d", r"(a+)\1", "a{1,9}{1,9}")
    },
    "tokenizer.json memory, replacements": (tokenizer_json, tokenizer(normalizer={
        "type": "Sequence", "normalizers": [REPLACE] * 7}), "more than 64 times"),
    "tokenizer.json memory, a text decoded": (tokenizer_json, tokenizer(decoder={
        **REPLACE, "content": "a" * 100}), "more than 64 times"),
    "tokenizer.json memory, between characters": (tokenizer_json, tokenizer(normalizer={
        **REPLACE, "pattern": {"Regex": "x*"}, "content": "a" * 64}), "more than 64 times"),
    "tokenizer.json memory, a character": (tokenizer_json, tokenizer(normalizer={
        "type": "Precompiled", "precompiled_charsmap": base64.b64encode(
            characters(b"x" * 65)).decode()}), "more than 64 bytes"),
    "tokenizer.json memory, a text in front": (tokenizer_json, tokenizer(normalizer={
        "type": "Prepend", "prepend": "x" * 1_001}), "a long text"),
    "tokenizer.json count, special tokens": (tokenizer_json, tokenizer(post_processor={
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}}] * 20,
        "special_tokens": {"a": {"ids": [1] * 51}}}), "more than 1,000 special"),
    "tokenizer.json time, long words": (tokenizer_json, tokenizer(model={
        "type": "WordPiece", "max_input_chars_per_word": 10**9}), "above 1,000"),
    "tokenizer.json time, a pattern": (tokenizer_json, tokenizer(pre_tokenizer={
        "type": "Split", "pattern": {"Regex": "(a+)+$"}}), "may take too long"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_grows_is_refused(name: str, tmp_path: Path) -> None:
    read, data, reason = FILES[name]
    path = tmp_path / "file"
    if read is npz:
        archive(path, ("a.npy", data))
    else:
        path.write_bytes(data)
    with pytest.raises(ValueError, match=reason):
        read(path)


#: Changes of a SentencePiece model, and the reason it is refused.
MODELS: dict[str, tuple[Callable[[Any], object], str]] = {
    "memory, a character": (lambda model: setattr(
        model.normalizer_spec, "precompiled_charsmap", characters(b"x" * 65)), "64 bytes"),
    "memory, a character decoded": (lambda model: setattr(
        model.denormalizer_spec, "precompiled_charsmap", characters(b"x" * 65)), "64 bytes"),
    "memory, a long piece": (lambda model: model.pieces.add(piece="x" * 1_001), "1,001 characters"),
    "count, pieces": (lambda model: model.pieces[0].MergeFromString(
        b"\x0a" + b"\xc1\xc4\x7a" + b"\n" * 2_007_617), "more than 1,000,000 pieces"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_sentencepiece_model_that_grows_is_refused(name: str, tiny_tokenizer: Tokenizer) -> None:
    change, reason = MODELS[name]
    with pytest.raises(ValueError, match=reason):
        Tokenizer(sentencepiece(change)(tiny_tokenizer.to_bytes()))


def test_a_sentencepiece_models_own_test_is_not_run(tiny_tokenizer: Tokenizer) -> None:
    changed = Tokenizer(sentencepiece(lambda _: None, SELF_TEST)(tiny_tokenizer.to_bytes()))
    assert changed.pieces == tiny_tokenizer.pieces


def test_a_lattice_of_long_pieces_is_not_built(tiny_tokenizer: Tokenizer) -> None:
    long = sentencepiece(lambda model: model.pieces.add(piece="a" * 999, score=-1.0))
    tokenizer = Tokenizer(long(tiny_tokenizer.to_bytes()))
    assert tokenizer.n_best("a" * 1_000, 2) and not tokenizer.n_best("a" * 1_100, 2)


def test_patterns_of_known_tokenizers_are_allowed() -> None:
    contractions, words = "'s|'t|'re|'ve|'m|'ll|'d", r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    for text in (
        rf"{contractions}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
        rf"(?i:{contractions})|{words}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        rf"[^\r\n\p{{L}}]?[\p{{Lu}}\p{{M}}]*[\p{{Ll}}\p{{M}}]+(?i:{contractions})?|\p{{N}}{{1,3}}",
        " {2,}", r" ?[^(\s|[.,!?…])]+", "[0-9][0-9][0-9]",
    ):  # fmt: skip
        check_pattern(text)
