"""Small files that would take hours, gigabytes or the whole stack; SECURITY.md lists the limits."""

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.transformer.files.test_npz import archive, member
from transformer.config import parse_json
from transformer.files.npz import read_npz
from transformer.files.torch_file import read_torch
from transformer.models.importers.joeynmt import read_settings
from transformer.text.limits import check_pattern, check_tokenizer_json
from transformer.text.rules import read_codes
from transformer.text.tokenizer import Tokenizer


def zipped(content: bytes) -> bytes:
    with zipfile.ZipFile(held := io.BytesIO(), "w") as made:
        made.writestr("a/data.pkl", content)
    return held.getvalue()


def two_directories(*contents: bytes) -> bytes:
    """Return an archive with two directories: `zipfile` reads the second, torch the first."""
    first, second = (data[:-22] for data in map(zipped, contents))
    begin, size = first.index(b"PK\x01\x02"), len(second) - second.index(b"PK\x01\x02")
    return first + second + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, begin, 0)


CALL = b"\x80\x02c__builtin__\nbytearray\nM\x00\x10\x85R."
PAIRS = b"\x80\x02Nq\x00" + b"".join(b"h%ch%c\x86q%c" % (a, a, b) for a, b in pairwise(range(26)))
MODEL = Path("checkpoints/reverse-toy/tokenizer.model").read_bytes()
WORDS = b'{"model": {"max_input_chars_per_word": 1001}}'
REPLACE = b'{"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": "%s"}}' % (
    b"a" * 64
)

READERS: dict[str, Callable[[Any], object]] = {
    "json": parse_json, "codes": read_codes, "tokenizer": check_tokenizer_json,
    "sentencepiece": Tokenizer, "pattern": lambda data: check_pattern(data.decode()),  # type: ignore[func-returns-value]
    "torch": read_torch, "yaml": lambda path: read_settings(path).whole("a"),
    "npz": lambda path: read_npz(archive(path, ("a.npy", path.read_bytes())), ["a"]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "reason"), [
    ("yaml", b"b: &b {x: 1}\nc: {<<: [*b, *b]}\na: 1", "merge keys"),
    ("yaml", b"a: 0x" + b"f" * 9_000, "more than 15 digits"),
    ("yaml", b"a: 1" + b":59" * 900 + b".5", "too large to convert"),
    ("json", b"[" + b"[]," * 600_000 + b"1]", "more than 1,000,000 values"),
    ("json", b"[" * 102 + b"]" * 102, "nested too deeply"),
    ("npz", member(header=b"-" * 9_000 + b"1"), "nested too deeply"),
    ("codes", b"a b\n" * 1_000_001, "more than 1,000,000 lines"),
    ("torch", CALL + zipped(b""), "__builtin__.bytearray"),
    ("torch", two_directories(CALL, pickle.dumps({}, 2)), "a plain end"),
    ("torch", zipped(PAIRS + b"}h\x19Ns."), "too large or nested"),
    ("torch", zipped(b"\x80\x02}N" + b"\x85" * 201 + b"Ns."), "too large or nested"),
    *(("pattern", text, "may take too long") for text in (b"(a+)+", b"(a|a)*b", b"a*a*[bc]d")),
    ("tokenizer", REPLACE, "more than 64 times"), ("tokenizer", WORDS, "above 1,000"),
    ("sentencepiece", MODEL + b"\n" * 2_000_001, "more than 1,000,000 pieces"),
])  # fmt: skip
def test_a_file_that_grows(kind: str, data: bytes, reason: str, tmp_path: Path) -> None:
    (path := tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=reason):
        READERS[kind](path if kind in ("torch", "yaml", "npz") else data)
