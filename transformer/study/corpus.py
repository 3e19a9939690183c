"""Study corpora: CoNLL-U with dependencies and coreference, or plain text by lines.

Files are read line by line, so memory is bounded by the longest sentence. Invalid files raise a
`DataError` with file name and line number.
"""

import gzip
import hashlib
import re
import tomllib
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from transformer.search.reader import MAX_CHARACTERS
from transformer.text.tokenizer import clean
from transformer.training.data import DataError
from transformer.trees.tree import split_words
from transformer.types import AttentionKind, literals

#: File name suffixes for annotated text. A corpus is such a file, a folder, or a plain text file.
SUFFIXES = (".conllu", ".conllu.gz")
#: Maximum line length in bytes, and maximum sentence length in words.
MAX_LINE, MAX_WORDS = 1 << 16, 1_000
#: Default corpus, written by `python -m transformer data gum --out data`.
DEFAULT = Path("data/gum")
#: Names of what a study reads and finds, see names.toml.
NAMES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))

_GUM = (
    "GUM corpus, gucorpling.org/gum (Zeldes 2017), whose pages name each document's authors: "
    "annotations CC-BY 4.0; texts"
)

#: Start, end, or both of a mention: `(12-person-...`, `12)`, `(3-place)`.
_BRACKET = re.compile(r"\(([^-()\[]+)(?:\[\d+/\d+\])?[^()]*(\))?|([^-()\[]+)(?:\[\d+/\d+\])?\)")


@dataclass(frozen=True)
class Sentence:
    """A corpus sentence, with its translation if a study stores one.

    Annotations have one entry per word, or none for plain text.
    """

    document: str
    words: tuple[str, ...]  # [n], units of encoder heads and cross-attention keys
    tags: tuple[str, ...] = ()  # [n], parts of speech
    parents: tuple[int, ...] = ()  # [n], 0-based syntactic heads; -1 for the root
    relations: tuple[str, ...] = ()  # [n], to the syntactic head: "nsubj", "det", ...
    antecedents: tuple[int, ...] = ()  # [n], antecedent of a pronoun; otherwise -1
    #: words of the greedy translation, units of decoder heads and cross-attention queries
    target: tuple[str, ...] = ()
    text: str = ""  # model input
    chunks: tuple[int, ...] = ()  # [n], index of the space-separated part with this word

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return a sentence from its JSON fields."""
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})

    @literals
    def queries(self, kind: AttentionKind) -> tuple[str, ...]:
        """Return query words for one kind of attention: target words if there are any."""
        return self.target if kind != "encoder_self" and self.target else self.words

    @literals
    def keys(self, kind: AttentionKind) -> tuple[str, ...]:
        """Return key words for one kind of attention."""
        return self.target if kind == "decoder_self" and self.target else self.words


@dataclass(frozen=True)
class Corpus:
    """A validated corpus and its counts."""

    path: Path
    n_all: int  # sentences in the file or folder
    digest: str  # SHA-256 of its sentences and annotations
    n_sentences: int  # sentences read, evenly spaced
    n_words: int
    documents: dict[str, int]  # document numbers by name, in order
    relations: Counter[str] = field(repr=False)  # word counts by relation
    n_pronouns: int  # pronouns with an antecedent
    counts: Counter[str] = field(repr=False)  # counts of case-folded words
    source: str = ""

    def __iter__(self) -> Iterator[Sentence]:
        """Iterate over the sentences, reading the files again."""
        return evenly(read(self.path), self.n_sentences, self.n_all)

    @property
    def name(self) -> str:
        """Folder or file name without suffixes."""
        return self.path.resolve().name.split(".")[0]


def is_taken(number: int, n: int, total: int) -> bool:
    """Return True for `n` evenly spaced numbers out of 0 to `total` - 1."""
    return (number + 1) * n // total > number * n // total


def evenly(sentences: Iterable[Sentence], n: int, total: int) -> Iterator[Sentence]:
    """Yield `n` evenly spaced sentences out of `total`."""
    return (sentence for number, sentence in enumerate(sentences) if is_taken(number, n, total))


def survey(path: Path, n: int | None = None) -> Corpus:
    """Validate and count `n` evenly spaced sentences of a corpus, or all. Raises `DataError`."""
    total = sum(1 for _ in read(path))
    chosen = total if n is None else min(n, total)
    digest, relations, counts = hashlib.sha256(), Counter[str](), Counter[str]()
    documents: dict[str, int] = {}
    n_sentences = n_pronouns = 0
    for sentence in evenly(read(path), chosen, total):
        n_sentences += 1
        documents.setdefault(sentence.document, len(documents))
        digest.update(repr((sentence.text, sentence.words, sentence.tags, sentence.parents,
                            sentence.relations, sentence.antecedents)).encode())  # fmt: skip
        relations.update(sentence.relations)
        counts.update(word.casefold() for word in sentence.words)
        n_pronouns += sum(word >= 0 for word in sentence.antecedents)
    if not n_sentences:
        raise DataError(f"{path}, line 1: no sentences")
    source = ""
    if all(name.startswith("GUM_") for name in documents):
        genres = dict.fromkeys(name.split("_")[1] for name in documents)
        terms = (f"{genre} ({NAMES['terms'].get(genre, 'see its page')})" for genre in genres)
        source = f"{_GUM} {', '.join(terms)}"
    return Corpus(path, total, digest.hexdigest(), n_sentences, counts.total(), documents,
                  relations, n_pronouns, counts, source)  # fmt: skip


def read(path: Path) -> Iterator[Sentence]:
    """Yield sentences from a folder, a CoNLL-U file, or a plain text file."""
    if not path.exists():
        hint = "; get it with: python -m transformer data gum --out data" * (path == DEFAULT)
        raise DataError(f"{path}: no such file or folder{hint}")
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.glob("[!.]*") if file.name.endswith(SUFFIXES))
        if not files:
            raise DataError(f"{path}: no files; expected names ending in {' or '.join(SUFFIXES)}")
    for file in files:
        lines = _lines(file)
        yield from _conllu(file, lines) if file.name.endswith(SUFFIXES) else _plain(file, lines)


def _plain(file: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Sentence]:
    for number, line in lines:
        if len(line) > MAX_CHARACTERS:
            raise _wrong(file, number, f"{len(line):,} characters; at most {MAX_CHARACTERS:,}")
        if line.count("\t") == 9:
            raise _wrong(file, number, f"columns; name CoNLL-U files *{' or '.join(SUFFIXES)}")
        text = clean(line).strip()
        words = tuple(split_words(text))
        if len(words) > MAX_WORDS:
            raise _wrong(file, number, f"a sentence of more than {MAX_WORDS:,} words")
        if words:
            ends = [*accumulate(map(len, text.split()))]
            starts = accumulate((len(word) for word in words[:-1]), initial=0)
            chunks = tuple(bisect_right(ends, start) for start in starts)
            yield Sentence(f"line {number}", words, text=text, chunks=chunks)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, line) pairs from a UTF-8 file, without line endings."""
    number = 0
    try:
        stream: Any
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise _wrong(file, number, f"a line of more than {MAX_LINE:,} bytes")
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if "\0" in text:
                    raise _wrong(file, number, "contains a NUL byte; expected text")
                yield number, text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise _wrong(file, number, f"not UTF-8 (byte {error.start + 1})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _wrong(file, number + 1, f"damaged ({error})") from None
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}") from None


def _wrong(file: Path, line: int, what: str) -> DataError:
    return DataError(f"{file}, line {line}: {what}")


def _conllu(file: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Sentence]:
    document, alone, rows = "", 0, list[tuple[int, list[str]]]()
    for number, line in lines:
        if line.startswith("#"):
            if match := re.match(r"# newdoc(?: id)?(?: *= *(.*))?$", line):
                document, alone = (match[1] or f"{file.name} {number}"), 0
            elif rows:
                raise _wrong(file, number, "a comment inside a sentence")
        elif line.strip():
            columns = line.split("\t")
            if len(columns) != 10:
                raise _wrong(file, number, f"{len(columns)} columns; expected 10, between tabs")
            rows.append((number, columns))
            if len(rows) > 2 * MAX_WORDS:
                raise _wrong(file, number, f"a sentence of more than {MAX_WORDS:,} words")
        elif rows:
            # Without document names, each sentence is a document. Texts whose licence forbids
            # copies have underscores in place of words.
            alone += 1
            if any(columns[1].strip("_") for _, columns in rows):
                yield _annotated(file, rows, document or f"{file.name} {alone}")
            rows = []
    if rows:
        yield _annotated(file, rows, document or f"{file.name} {alone + 1}")


def _annotated(file: Path, rows: Sequence[tuple[int, list[str]]], document: str) -> Sentence:
    """Return a sentence from CoNLL-U rows of (line number, ten columns)."""
    words: list[tuple[int, list[str]]] = []  # excluding ranges and empty nodes
    surfaces: list[tuple[str, bool]] = []  # written forms, and whether a space follows
    chunks: list[int] = []
    inside = chunk = 0  # last word in a range that is written as one form
    space = False
    for number, columns in rows:
        name, form = columns[0], "".join(columns[1].split())
        if "." in name:
            continue
        apart = "SpaceAfter=No" not in columns[9]
        first, _, last = name.partition("-")
        if not (_is_number(first) and (not last or _is_number(last))):
            raise _wrong(file, number, f"{name[:20]!r} is not a word number")
        if int(first) != len(words) + 1 or (last and not inside < int(first) <= int(last)):
            raise _wrong(file, number, f"word {name} follows word {len(words)}")
        if not form:
            raise _wrong(file, number, "a word without a form")
        if last or int(first) > inside:  # a written form
            chunk += space
            surfaces.append((form, apart))
            space = apart
        if last:
            inside = int(last)
        else:
            words.append((number, columns))
            chunks.append(chunk)
    if not words or inside > len(words):
        raise _wrong(file, rows[-1][0], f"{len(words)} words; expected {max(inside, 1)}")
    parents = _parents(file, words)
    tags = tuple(upos if upos != "_" else xpos for _, (*_, upos, xpos, _, _, _, _, _) in words)
    mentions = _mentions(file, words)
    text = "".join(form + " " * apart for form, apart in surfaces).strip()
    return Sentence(
        document, tuple("".join(columns[1].split()) for _, columns in words), tags, parents,
        tuple(columns[7] for _, columns in words), _antecedents(mentions, parents, tags),
        text=text, chunks=tuple(chunks),
    )  # fmt: skip


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def _parents(file: Path, words: Sequence[tuple[int, list[str]]]) -> tuple[int, ...]:
    parents = list[int]()
    for at, (number, columns) in enumerate(words):
        head = columns[6]
        if not _is_number(head) or int(head) > len(words) or int(head) == at + 1:
            raise _wrong(file, number, f"word {at + 1} has head {head[:20]!r}; expected another "
                                       f"word from 1 to {len(words)}, or 0")  # fmt: skip
        if int(head) == 0 and -1 in parents:
            raise _wrong(file, number, f"words {parents.index(-1) + 1} and {at + 1} are both roots")
        parents.append(int(head) - 1)
    rooted = [False] * len(words)
    for at, (number, _) in enumerate(words):
        path, now = set[int](), at
        while now >= 0 and not rooted[now]:
            if now in path:
                raise _wrong(file, number, f"word {at + 1} is its own ancestor")
            path.add(now)
            now = parents[now]
        for word in path:
            rooted[word] = True
    return tuple(parents)


#: (entity, first word, last word).
Mention = tuple[str, int, int]


def _mentions(file: Path, words: Sequence[tuple[int, list[str]]]) -> list[Mention]:
    mentions: list[Mention] = []
    started: list[tuple[str, int, int]] = []  # entity, first word, line
    for at, (number, columns) in enumerate(words):
        entry = next((part for part in columns[9].split("|") if part.startswith("Entity=")), "")
        text, end = entry.removeprefix("Entity="), 0
        for match in _BRACKET.finditer(text):
            if match.start() != end:
                break
            end = match.end()
            opened, closed = match[1], match[3]
            if opened and match[2]:
                mentions.append((opened, at, at))
            elif opened:
                started.append((opened, at, number))
            else:
                last = max((k for k, s in enumerate(started) if s[0] == closed), default=-1)
                if last < 0:
                    raise _wrong(file, number, f"mention {closed!r} ends before it begins")
                mentions.append((closed, started.pop(last)[1], at))
        if end != len(text):
            raise _wrong(file, number, f"unbalanced mention brackets: {text[:60]!r}")
    if started:
        name, _, number = started[-1]
        raise _wrong(file, number, f"mention {name!r} does not end in its sentence")
    return mentions


def _antecedents(
    mentions: Sequence[Mention], parents: Sequence[int], tags: Sequence[str]
) -> tuple[int, ...]:
    """Return the head of each pronoun's nearest earlier non-pronoun mention, otherwise -1."""
    antecedents = [-1] * len(parents)
    for entity, at, last in mentions:
        if at != last or tags[at] != "PRON":
            continue
        heads = [
            next(word for word in range(first, end + 1) if not first <= parents[word] <= end)
            for other, first, end in mentions
            if other == entity and end < at
        ]
        antecedents[at] = max((head for head in heads if tags[head] != "PRON"), default=-1)
    return tuple(antecedents)
