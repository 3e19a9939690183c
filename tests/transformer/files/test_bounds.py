"""Small files that would take hours, gigabytes or the whole stack; SECURITY.md lists the limits."""

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


def tokenizer(part: str, kind: str, **settings: Any) -> bytes:
    return json.dumps({"model": {}, part: {"type": kind, **settings}}).encode()


CALL = b"\x80\x02c__builtin__\nbytearray\nM\x00\x10\x85R."
PAIRS = b"\x80\x02Nq\x00" + b"".join(b"h%ch%c\x86q%c" % (a, a, b) for a, b in pairwise(range(26)))
DOUBLING = "a0: &a0 {x: 1}\n" + "".join(
    f"a{new}: &a{new} {{<<: [*a{old}, *a{old}]}}\n" for old, new in pairwise(range(9))
)
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
#: A table of characters: an empty trie of 256 nodes, and a text in place of a character.
CHARACTERS = struct.pack("<L", 1024) + bytes(1024) + b"x" * 65 + b"\0"

READERS: dict[str, Callable[[Path], object]] = {
    "yaml": lambda path: read_settings(path).whole("a"),
    "json": lambda path: parse_json(path.read_bytes()),
    "npz": lambda path: read_npz(archive(path, ("a.npy", path.read_bytes())), ["a"]),
    "text": read_text,
    "codes": lambda path: read_codes(path.read_bytes()),
    "torch": read_torch,
    "fairseq": lambda path: read_content(path, "fairseq"),
    "pattern": lambda path: check_pattern(path.read_text()),  # type: ignore[func-returns-value]
    "tokenizer": lambda path: check_tokenizer_json(path.read_bytes()),  # type: ignore[func-returns-value]
}
#: By reader and what grows: the file, and the reason it is refused.
FILES: dict[str, tuple[bytes, str]] = {
    "yaml time, merge keys": (DOUBLING.encode(), "merge keys"),
    "yaml count, digits": (b"a: 0x" + b"f" * 9_000, "more than 15 digits"),
    "yaml count, base 60": (b"a: 1" + b":59" * 900 + b".5", "too large to convert"),
    "json memory, values": (b"[" + b"[]," * 600_000 + b"1]", "more than 1,000,000 values"),
    "json depth": (b"[" * 102 + b"]" * 102, "nested too deeply"),
    "npz depth, negations": (member(header=b"-" * 9_000 + b"1"), "nested too deeply"),
    "text count, lines": (b"\n" * 1_000_001, "more than 1,000,000 lines"),
    "text memory, bytes": (b"x" * (2**24 + 1), "are allowed"),
    "codes count, lines": (b"a b\n" * 1_000_001, "more than 1,000,000 lines"),
    "torch memory, a pickle and a directory": (CALL + zipped(b""), "__builtin__.bytearray"),
    "torch memory, two directories": (
        two_directories(CALL, pickle.dumps({}, 2).ljust(len(CALL))), "without a plain end"),
    "torch time, a key of pairs of pairs": (zipped(PAIRS + b"}h\x19Ns."), "too large or nested"),
    "torch depth": (zipped(b"\x80\x02}N" + b"\x85" * 201 + b"Ns."), "too large or nested"),
    "fairseq time, a set of pairs of pairs": (
        zipped(PAIRS + b"c__builtin__\nset\n]h\x19a\x85R."), "too large or nested"),
    **{f"pattern time, {text}": (text.encode(), "may take too long") for text in (
        "(a+)+$", "(a|a)*b", "((a+))*", "a*a*[bc]d", r"(a+)\1", "a{1,9}{1,9}")},
    "tokenizer memory, replacements": (tokenizer(
        "normalizer", "Sequence", normalizers=[REPLACE] * 7), "more than 64 times"),
    "tokenizer memory, a text decoded": (tokenizer(
        "decoder", "Sequence", decoders=[{**REPLACE, "content": "a" * 65}]), "more than 64 times"),
    "tokenizer memory, between characters": (tokenizer(
        "normalizer", "Replace", pattern={"Regex": "x*"}, content="a" * 64), "more than 64 times"),
    "tokenizer memory, a character": (tokenizer("normalizer", "Precompiled",
        precompiled_charsmap=base64.b64encode(CHARACTERS).decode()), "more than 64 bytes"),
    "tokenizer memory, a text in front": (tokenizer(
        "normalizer", "Prepend", prepend="x" * 1_001), "a long text"),
    "tokenizer count, special tokens": (tokenizer(
        "post_processor", "TemplateProcessing", single=[{"SpecialToken": {"id": "a"}}] * 20,
        special_tokens={"a": {"ids": [1] * 51}}), "more than 1,000 special"),
    "tokenizer time, long words": (tokenizer(
        "model", "WordPiece", max_input_chars_per_word=10**9), "above 1,000"),
    "tokenizer time, a pattern": (tokenizer(
        "pre_tokenizer", "Split", pattern={"Regex": "(a+)+$"}), "may take too long"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_grows_is_refused(name: str, tmp_path: Path) -> None:
    data, reason = FILES[name]
    (path := tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=reason):
        READERS[name.split()[0]](path)


@pytest.mark.parametrize(("change", "reason"), [
    (lambda it: setattr(it.normalizer_spec, "precompiled_charsmap", CHARACTERS), "64 bytes"),
    (lambda it: setattr(it.denormalizer_spec, "precompiled_charsmap", CHARACTERS), "64 bytes"),
    (lambda it: it.pieces.add(piece="x" * 1_001), "1,001 characters"),
    (lambda it: it.pieces.add(piece="\n" * 2_000_001), "more than 1,000,000 pieces"),
    (lambda it: it.MergeFromString(b"\x22\x05\x0a\x03\x0a\x01a"), ""),  # its self-test is not run
    (lambda it: it.pieces.add(piece="a" * 999, score=-1.0), ""),  # allowed, without many cuts
])  # fmt: skip
def test_sentencepiece_models(
    change: Callable[[Any], object], reason: str, tiny_tokenizer: Tokenizer
) -> None:
    change(proto := ModelProto.FromString(tiny_tokenizer.to_bytes()))
    model = bytes(proto.SerializeToString())
    if reason:
        with pytest.raises(ValueError, match=reason):
            Tokenizer(model)
    else:
        assert (tokenizer := Tokenizer(model)).n_best("a" * 900, 2)
        assert not tokenizer.n_best("a" * 1_100, 2) or "a" * 999 not in tokenizer.pieces


@pytest.mark.parametrize("pattern", [
    r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)",
    r"[^\r\n\p{L}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?", " {2,}", r" ?[^(\s|[.,!?…])]+",
])  # fmt: skip
def test_patterns_of_known_tokenizers_are_allowed(pattern: str) -> None:
    check_pattern(pattern)
