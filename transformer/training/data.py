"""Parallel text: reading, splitting, and batching by token count (section 5.1).

A `Corpus` holds sentence pairs by split. If it has no held-out part, one is split off by *source
sentence*, so that no source occurs in both.
"""

import csv
import gzip
import hashlib
import itertools
import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.text.tokenizer import BOS_ID, EOS_ID, PAD_ID

#: Multi30k test sets that English, German and French share.
MULTI30K_TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")

#: A source sentence and its translation.
Pair = tuple[str, str]


class DataError(ValueError):
    """Text that cannot be used; the message names the file and the error."""


class MissingFileError(DataError):
    """A missing text file."""


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs by split: train, val, and named test sets."""

    train: tuple[Pair, ...]
    val: tuple[Pair, ...] = ()
    tests: dict[str, tuple[Pair, ...]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the training pairs, in order and in hexadecimal."""
        digest = hashlib.sha256()
        for pair in self.train:
            digest.update(repr(pair).encode())
        return digest.hexdigest()


def find_file(path: Path) -> Path:
    """Return `path`, or `path`.gz if only that exists. Raises `MissingFileError`."""
    zipped = path.with_name(path.name + ".gz")
    if not is_there(path):
        raise MissingFileError(f"{path}: no such file (nor {zipped.name})")
    return path if path.is_file() else zipped


def is_there(path: Path) -> bool:
    """Return True if a file or its gzipped version, `path`.gz, exists."""
    return path.is_file() or path.with_name(path.name + ".gz").is_file()


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 text file, plain or gzipped. Raises `DataError`."""
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start})") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: {reason}") from None
    # Only line feeds end a line: str.splitlines would also split at form feeds and the like.
    text = text.removeprefix("\ufeff")
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def read_parallel(src_path: Path, tgt_path: Path) -> tuple[Pair, ...]:
    """Read pairs from two files, one sentence per line. Raises `DataError` if lengths differ."""
    src, tgt = read_lines(find_file(src_path)), read_lines(find_file(tgt_path))
    if len(src) != len(tgt):
        raise DataError(f"{src_path} has {len(src)} lines but {tgt_path} has {len(tgt)}")
    return tuple(zip(src, tgt, strict=True))


def read_tsv(path: Path) -> tuple[Pair, ...]:
    """Read pairs from lines of source TAB target, ignoring further columns and blank lines."""
    path, pairs = find_file(path), []
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) >= 2:
            pairs.append((columns[0], columns[1]))
        elif line.strip():
            raise DataError(f"{path}: line {number} has no tab between source and target")
    return tuple(pairs)


def read_csv(path: Path, src: str, tgt: str) -> tuple[Pair, ...]:
    """Read pairs from comma-separated rows, quoted as in spreadsheets; ignore blank rows.

    A first row that contains `src` and `tgt` selects these columns. Otherwise the first two columns
    are read, from the first row on.
    """
    path = find_file(path)
    rows = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    pairs: list[Pair] = []
    first, second = 0, 1
    try:
        for row in rows:
            names = [cell.strip().casefold() for cell in row]
            if rows.line_num == 1 and src.casefold() in names and tgt.casefold() in names:
                first, second = names.index(src.casefold()), names.index(tgt.casefold())
            elif len(row) > max(first, second):
                pairs.append((row[first], row[second]))
            elif row:
                raise DataError(f"{path}: line {rows.line_num} lacks a column of text")
    except csv.Error as error:
        raise DataError(f"{path}: line {rows.line_num}: {error}") from None
    return tuple(pairs)


def corpus_folder(name: str, folder: Path) -> Path:
    """Return the folder of a named corpus: `folder`/`name` if that exists, else `folder`."""
    return folder / name if (folder / name).is_dir() else folder


def multi30k(folder: Path, src: str, tgt: str) -> Corpus:
    """Read Multi30k (Elliott et al. 2016): captions, 29,000 for training, and three test sets."""
    train, val, *tests = (
        read_parallel(folder / f"{name}.{src}", folder / f"{name}.{tgt}")
        for name in ("train", "val", *MULTI30K_TESTS)
    )
    return Corpus(train, val, dict(zip(MULTI30K_TESTS, tests, strict=True)))


def tatoeba(folder: Path, src: str, tgt: str) -> Corpus:
    """Read Tatoeba's everyday sentences, holding out 1% of sources for testing and 0.5% for val.

    Reads SRC-TGT.tsv or, if that is missing, TGT-SRC.tsv with its columns swapped.
    """
    path, turned = folder / f"{src}-{tgt}.tsv", folder / f"{tgt}-{src}.tsv"
    try:
        pairs = read_tsv(path)
    except MissingFileError:
        if not is_there(turned):
            raise
        pairs = tuple((second, first) for first, second in read_tsv(turned))
    train, val, test = split_by_source(pairs, (0.985, 0.005, 0.01))
    return Corpus(train, val, {"tatoeba_test": test})


def reversal(n: int = 20_000, max_length: int = 24, seed: int = 7) -> Corpus:
    """Generate random lower-case strings and their reversals, a task that is easy to check.

    Half of the strings draw from at most six letters. Repeated letters differ only in position, so
    the model must learn positions.
    """
    rng = random.Random(seed)
    every = "abcdefghijklmnopqrstuvwxyz"
    texts = []
    for _ in range(n):
        letters = rng.sample(every, rng.randint(1, 6)) if rng.random() < 0.5 else every
        texts.append("".join(rng.choices(letters, k=rng.randint(1, max_length))))
    pairs = tuple((text, text[::-1]) for text in texts)
    train, val, test = split_by_source(pairs, (0.9, 0.05, 0.05))
    return Corpus(train, val, {"reverse_test": test})


def source_key(sentence: str) -> str:
    """Return the key by which splits are made: a source's letters and digits, case-folded."""
    return "".join(character for character in sentence.casefold() if character.isalnum())


def split_by_source(
    pairs: Sequence[Pair], shares: tuple[float, float, float]
) -> tuple[tuple[Pair, ...], tuple[Pair, ...], tuple[Pair, ...]]:
    """Split pairs in three so that no source (see `source_key`) occurs in two parts.

    A hash of the source alone decides, so the order of the pairs and other pairs do not matter.

    Args: shares: of train, val and test; they sum to 1.
    """
    if abs(sum(shares) - 1) > 1e-9 or min(shares) < 0:
        raise ValueError(f"shares={shares} must be at least 0 and sum to 1")
    parts: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    for pair in pairs:
        digest = hashlib.sha256(source_key(pair[0]).encode()).digest()
        draw = int.from_bytes(digest[:8], "big") / 2**64
        parts[0 if draw < shares[0] else 1 if draw < shares[0] + shares[1] else 2].append(pair)
    return tuple(parts[0]), tuple(parts[1]), tuple(parts[2])


def merge(corpora: Iterable[Corpus]) -> Corpus:
    """Join corpora, dropping training pairs with a source that any of them holds out."""
    train, val = list[Pair](), list[Pair]()
    tests: dict[str, tuple[Pair, ...]] = {}
    for corpus in corpora:
        train += corpus.train
        val += corpus.val
        tests |= corpus.tests
    held_out = {source_key(src) for part in (val, *tests.values()) for src, _ in part}
    return Corpus(tuple(p for p in train if source_key(p[0]) not in held_out), tuple(val), tests)


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded token ids, int64: src [B, S], tgt_in [B, T] and tgt_out [B, T], one step apart.

    Sources and tgt_out end in `</s>`; tgt_in starts with `<s>`.
    """

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor

    @property
    def n_tokens(self) -> int:
        """Number of target tokens to predict, excluding padding."""
        return int((self.tgt_out != PAD_ID).sum())


def collate(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Pad token id lists (without special tokens) into a batch."""
    return Batch(
        _pad([[*ids, EOS_ID] for ids in sources]),
        _pad([[BOS_ID, *ids] for ids in targets]),
        _pad([[*ids, EOS_ID] for ids in targets]),
    )


def token_batches(
    src_lengths: NDArray[np.int64], tgt_lengths: NDArray[np.int64], batch_tokens: int, *,
    seed: int, epoch: int,
) -> list[NDArray[np.int64]]:  # fmt: skip
    """Group sentences of similar length into batches of about `batch_tokens` padded tokens (5.1).

    The tokens of the longer side count. Sentences are sorted by target, then source length, with
    ties in random order, then split into batches, which are shuffled. Equal arguments give equal
    batches, so an epoch can be resumed at any batch.

    Returns: index arrays that together contain every sentence once.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(src_lengths))
    order = order[np.lexsort((src_lengths[order], tgt_lengths[order]))]
    batches, start, longest = [], 0, 0
    for position, index in enumerate(order):
        longer = max(longest, int(src_lengths[index]) + 1, int(tgt_lengths[index]) + 1)
        if position > start and longer * (position - start + 1) > batch_tokens:
            batches.append(order[start:position])
            start = position
            longer = max(int(src_lengths[index]), int(tgt_lengths[index])) + 1
        longest = longer
    if start < len(order):
        batches.append(order[start:])
    return [batches[index] for index in rng.permutation(len(batches))]


def _pad(rows: Sequence[Sequence[int]]) -> Tensor:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), lengths.max()), PAD_ID, dtype=np.int64)
    tokens = np.fromiter(itertools.chain.from_iterable(rows), np.int64, lengths.sum())
    padded[np.arange(lengths.max()) < lengths[:, None]] = tokens
    return torch.from_numpy(padded)
