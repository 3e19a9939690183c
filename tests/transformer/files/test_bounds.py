"""Small files that would take hours, gigabytes or the whole stack; SECURITY.md lists the limits."""

import base64
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
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

MODEL = Path("checkpoints/reverse-toy/tokenizer.model").read_bytes()


def zipped(content: bytes) -> bytes:
    with zipfile.ZipFile(held := io.BytesIO(), "w") as made:
        made.writestr("a/data.pkl", content)
    return held.getvalue()


def two_directories(*contents: bytes) -> bytes:
    """Return an archive with two directories: `zipfile` reads the second, torch the first."""
    first, second = (data[:-22] for data in map(zipped, contents))
    begin, size = first.index(b"PK\x01\x02"), len(second) - second.index(b"PK\x01\x02")
    return first + second + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, begin, 0)


def tokenizer(part: str, kind: str, **settings: Any) -> bytes:
    return json.dumps({"model": {}, part: {"type": kind, **settings}}).encode()


def model(change: Callable[[Any], object]) -> bytes:
    change(proto := ModelProto.FromString(MODEL))
    return bytes(proto.SerializeToString())


CALL = b"\x80\x02c__builtin__\nbytearray\nM\x00\x10\x85R."
PAIRS = b"\x80\x02Nq\x00" + b"".join(b"h%ch%c\x86q%c" % (a, a, b) for a, b in pairwise(range(26)))
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
#: A table of characters: an empty trie of 256 nodes, and a text in place of a character.
CHARACTERS = struct.pack("<L", 1024) + bytes(1024) + b"x" * 65 + b"\0"

READERS: dict[str, Callable[[Any], object]] = {
    "json": parse_json, "codes": read_codes, "tokenizer": check_tokenizer_json,
    "sentencepiece": Tokenizer, "pattern": lambda data: check_pattern(data.decode()),  # type: ignore[func-returns-value]
    "text": read_text, "torch": read_torch, "fairseq": lambda path: read_content(path, "fairseq"),
    "yaml": lambda path: read_settings(path).whole("a"),
    "npz": lambda path: read_npz(archive(path, ("a.npy", path.read_bytes())), ["a"]),
}  # fmt: skip
#: By reader and what grows: the file, and the reason it is refused.
FILES: dict[str, tuple[bytes, str]] = {
    "yaml time, merge keys": (b"b: &b {x: 1}\nc: {<<: [*b, *b]}\na: 1", "merge keys"),
    "yaml count, digits": (b"a: 0x" + b"f" * 9_000, "more than 15 digits"),
    "yaml count, base 60": (b"a: 1" + b":59" * 900 + b".5", "too large to convert"),
    "json memory, values": (b"[" + b"[]," * 600_000 + b"1]", "more than 1,000,000 values"),
    "json depth": (b"[" * 102 + b"]" * 102, "nested too deeply"),
    "npz depth, negations": (member(header=b"-" * 9_000 + b"1"), "nested too deeply"),
    "text count, lines": (b"\n" * 1_000_001, "more than 1,000,000 lines"),
    "text memory, bytes": (b"x" * (2**24 + 1), "are allowed"),
    "codes count, lines": (b"a b\n" * 1_000_001, "more than 1,000,000 lines"),
    "torch memory, a pickle and a directory": (CALL + zipped(b""), "__builtin__.bytearray"),
    "torch memory, directories": (two_directories(CALL, pickle.dumps({}, 2)), "a plain end"),
    "torch time, a key of pairs of pairs": (zipped(PAIRS + b"}h\x19Ns."), "too large or nested"),
    "torch depth": (zipped(b"\x80\x02}N" + b"\x85" * 201 + b"Ns."), "too large or nested"),
    "fairseq time, a set": (zipped(PAIRS + b"c__builtin__\nset\n]h\x19a\x85R."), "too large or"),
    **{f"pattern time, {text}": (text.encode(), "may take too long") for text in (
        "(a+)+$", "(a|a)*b", "((a+))*", "a*a*[bc]d", r"(a+)\1", "a{1,9}{1,9}")},
    **{f"pattern {text}": (text.encode(), "") for text in (
        r"(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)",
        r"[^\r\n\p{L}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?", " {2,}", r" ?[^(\s|[.,!?…])]+")},
    "tokenizer memory": (tokenizer("normalizer", "Sequence", all=[REPLACE] * 7), "64 times"),
    "tokenizer memory, decoded": (tokenizer("", "", x=REPLACE | {"content": "a" * 65}), "64 times"),
    "tokenizer memory +": (tokenizer("", "Replace", pattern={"Regex": ""}, content="a" * 64), "64"),
    "tokenizer memory, a character": (tokenizer("normalizer", "Precompiled",
        precompiled_charsmap=base64.b64encode(CHARACTERS).decode()), "more than 64 bytes"),
    "tokenizer memory, front": (tokenizer("normalizer", "Prepend", prepend="x" * 1_001), "a long"),
    "tokenizer count, special tokens": (tokenizer(
        "post_processor", "TemplateProcessing", single=[{"SpecialToken": {"id": "a"}}] * 20,
        special_tokens={"a": {"ids": [1] * 51}}), "more than 1,000 special"),
    "tokenizer time, words": (tokenizer("model", "", max_input_chars_per_word=10**9), "above 1,0"),
    "tokenizer time": (tokenizer("", "Split", pattern={"Regex": "(a+)+$"}), "may take too long"),
    **{f"sentencepiece memory, {name}": (model(lambda it, name=name: setattr(  # type: ignore[misc]
        getattr(it, name), "precompiled_charsmap", CHARACTERS)), "more than 64 bytes")
        for name in ("normalizer_spec", "denormalizer_spec")},
    "sentencepiece memory": (model(lambda it: it.pieces.add(piece="x" * 1_001)), "1,001 charac"),
    "sentencepiece count": (model(lambda it: it.pieces.add(piece="\n" * 2_000_001)), "1,000,000"),
    "sentencepiece time, its self-test": (MODEL + b"\x22\x05\x0a\x03\x0a\x01a", ""),  # not run
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_grows_is_refused(name: str, tmp_path: Path) -> None:
    (data, reason), kind = FILES[name], name.split()[0]
    (path := tmp_path / "file").write_bytes(data)
    given = path if kind in ("text", "torch", "fairseq", "yaml", "npz") else data
    with pytest.raises(ValueError, match=reason) if reason else nullcontext():
        READERS[kind](given)


def test_a_lattice_of_long_pieces_is_not_built() -> None:
    tokenizer = Tokenizer(model(lambda it: it.pieces.add(piece="a" * 999, score=-1.0)))
    assert not tokenizer.n_best("a" * 1_100, 2)
