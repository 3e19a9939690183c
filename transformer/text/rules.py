"""Tokenizers without SentencePiece, and the reading of every checkpoint's tokenizer from its files.

Their vocabularies mark a piece that does not end its word (`fro@@ g`). This project marks the start
of a word (`▁fro g`), and displays pieces that way; `pieces` keeps the vocabulary's spelling.

A codes file, as written by subword-nmt and fastBPE, lists pairs of symbols in the order in which
they were learned; a word's last symbol is marked `</w>`. To segment a word, all occurrences of its
first listed pair are merged, until it has no listed pair (Sennrich et al. 2016).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, cast, get_args

from transformer.config import ModelConfig, parse_json
from transformer.text.layout import BY_MODEL, SOURCE_FILES, TABLE_FILE, TARGET_FILES, TOKENIZER_FILE
from transformer.text.limits import MAX_PIECES
from transformer.text.marks import visible
from transformer.text.table import Marks, Numbered, TableTokenizer
from transformer.text.tokenizer import Preparation, Tokenized, Tokenizer, TokenizerError

Unit = Literal["merges", "word", "char"]


class RuleTokenizer(Numbered):
    """Tokenizer that splits at spaces, then words by merges; or into characters."""

    def __init__(
        self,
        unit: Unit,
        table: Sequence[str],
        config: ModelConfig,
        target: Numbered | None = None,
        preparation: Preparation = Preparation(),  # noqa: B008 - it cannot change
        *,
        merges: "Sequence[Pair]" = (),
        end_apart: bool = False,
        joint: str | None = None,
        within: bool = False,
        marks: Marks = Marks(),  # noqa: B008
    ) -> None:
        """Combine rules with a table of pieces in id order.

        Args:
            unit: "merges" segments words, "word" splits only at spaces, "char" everywhere.
            config: defines the special ids.
            target: the target side's tokenizer, if it has its own.
            preparation: applied to text before segmentation.
            merges, end_apart: see `Merges`.
            joint: suffix of pieces that do not end a word, or "" for none; default "@@" for merges,
                else "". With "word", the text already has the suffixes.
            within: undo merges whose result is not in the vocabulary.
            marks: pieces that are not text.

        Raises: `TokenizerError` if the table is invalid or the merges do not match it.
        """
        joint = ("@@" if unit == "merges" else "") if joint is None else joint
        if unit == "merges" and not joint:
            raise TokenizerError("a piece that does not end its word needs a mark")
        self._unit, self._joint, self._within = unit, joint, within
        self._number(table, config, target, preparation, marks)
        words = self._ids.keys() - {*marks.tags, marks.separator} if within else ()
        self._merges = Merges(merges, end_apart=end_apart, known=words, joint=joint)
        self._check_merges()
        self._model, self._is_byte = b"", (False,) * len(table)
        self.byte_ids = frozenset()
        self.kind = unit

    @classmethod
    def of(
        cls, settings: Mapping[str, Any], table: Sequence[str], config: ModelConfig,
        target: Numbered | None = None,
    ) -> "RuleTokenizer":  # fmt: skip
        """Build from the result of `settings`. Raises `TokenizerError` naming an invalid one."""
        values = dict(settings)
        unit, pairs = values.pop("unit", None), values.pop("merges", [])
        preparation, marks = Preparation.of(values.pop("preparation", {})), Marks.taken(values)
        if unit not in get_args(Unit):
            raise TokenizerError(f"unit={unit!r} is not one of: {', '.join(get_args(Unit))}")
        if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
            raise TokenizerError("merges should be pairs of strings")
        for name, kind in (("end_apart", bool), ("within", bool), ("joint", str)):
            if not isinstance(values.get(name, kind()), kind):
                raise TokenizerError(f"{name}={values[name]!r} should be of type {kind.__name__}")
        if unknown := values.keys() - {"end_apart", "within", "joint"}:
            raise TokenizerError(f"unknown setting {min(unknown)!r}")
        merges = [cast(Pair, tuple(pair)) for pair in pairs]
        return cls(unit, table, config, target, preparation, merges=merges, marks=marks, **values)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings as read by `of`."""
        rules: dict[str, Any] = {"unit": self._unit, **super().settings}
        if self._joint:
            rules["joint"] = self._joint
        if self._unit == "merges":
            pairs = [list(pair) for pair in self._merges.pairs]
            rules |= {"end_apart": self._merges.end_apart, "within": self._within, "merges": pairs}
        return rules

    def tokenize(self, text: str) -> Tokenized:
        """Segment a sentence after `prepared`; pieces are in display form."""
        written, pieces = list[str](), list[str]()
        if self._unit == "char":
            written = [*self.normalize(text)]
            pieces = [*map(visible, written)]
        else:
            starts = True
            for word in self.prepared(text).split():
                *before, last = self._merges.cut(word) if self._unit == "merges" else (word,)
                for piece in (*(piece + self._joint for piece in before), last):
                    written.append(piece)
                    pieces.append(self._as_shown(piece, starts))
                    starts = not self._is_open(piece)
        ids = tuple(map(self.piece_to_id, written))
        return Tokenized(
            pieces=tuple(pieces),
            ids=ids,
            surfaces=tuple(piece.replace("▁", " ").strip() for piece in pieces),
            unknown=tuple(at for at, index in enumerate(ids) if index == self.unk_id),
        )

    def shown(self, ids: Sequence[int], after: int | None = None) -> tuple[str, ...]:
        """See `Tokenizer.shown`; a piece may start a word, depending on the piece before it."""
        pieces, starts = [], after is None or not self._continues(after)
        for index in ids:
            piece = self.pieces[index]
            special = index in self._special or self._unit == "char"
            pieces.append(piece if special else self._as_shown(piece, starts))
            starts = not self._continues(index)
        return tuple(pieces)

    def _continues(self, index: int) -> bool:
        return index not in self._special and self._is_open(self.pieces[index])

    def _is_open(self, piece: str) -> bool:
        return bool(self._joint) and piece.endswith(self._joint) and piece != self._joint

    def _as_shown(self, piece: str, starts: bool) -> str:
        plain = visible(piece.removesuffix(self._joint) if self._is_open(piece) else piece)
        return f"▁{plain}" if starts else plain

    def _check_merges(self) -> None:
        """Refuse merges that rarely produce pieces of the table."""
        merged = {
            joined.removesuffix(END) if joined.endswith(END) else joined + self._joint
            for joined in map("".join, self._merges.pairs)
        }
        n_shared = len(merged & self._ids.keys())
        # Joint merges of both languages and intermediate merges leave less than half.
        if 10 * n_shared < len(merged):
            raise TokenizerError(
                f"only {n_shared:,} of the {len(merged):,} pieces that it produces are in the "
                "vocabulary, so the two belong to different models"
            )

    def prepared(self, text: str) -> str:
        """Return prepared text as one line, words separated by single spaces."""
        return " ".join(super().prepared(text).split())

    def normalize(self, text: str) -> str:
        """Return the prepared text before segmentation, with `▁` for spaces."""
        prepared = self.prepared(text)
        if self._unit == "char" or not prepared:
            return prepared.replace(" ", "▁")
        # With "word", the text was typed with its suffixes.
        text = self._closed(prepared) if self._unit == "word" else prepared
        return "▁" + text.replace(" ", "▁")

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """Negative index in the vocabulary, which is usually sorted by frequency."""
        return tuple(0.0 if i in self._special else -float(i) for i in range(len(self.pieces)))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a token sequence, without special tokens except unknown ones."""
        kept = self._kept(ids)
        if self._unit == "char":
            return self.preparation.undo("".join(kept).replace("▁", " ").strip())
        return self.preparation.undo(self._closed(" ".join(kept)))

    def _closed(self, text: str) -> str:
        return f"{text} ".replace(f"{self._joint} ", "").rstrip() if self._joint else text


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(s, str) for s in pair)


#: The end-of-word mark.
END = "</w>"
#: Longer words are split into characters: merging takes quadratic time.
LONGEST_WORD = 1_000
#: Longest word whose pieces are cached, in characters.
_CACHED = 100

Pair = tuple[str, str]


class Merges:
    """Ordered merges, applied to one word at a time."""

    def __init__(
        self, pairs: Sequence[Pair], *, end_apart: bool = False, known: Collection[str] = (),
        joint: str = "@@",
    ) -> None:  # fmt: skip
        """Store the pairs in order; the first of duplicates counts.

        Args:
            end_apart: the end-of-word mark starts as a separate symbol (codes files without a
                version), not as part of the last character.
            known: merges into other pieces are undone, unless it is empty. Its pieces that do not
                end a word carry the suffix `joint`.
        """
        self.pairs, self.end_apart, self.joint = tuple(pairs), end_apart, joint
        self._rank: dict[Pair, int] = {}
        self._parts: dict[str, Pair] = {}
        for pair in self.pairs:
            self._rank.setdefault(pair, len(self._rank))
            self._parts.setdefault("".join(pair), pair)
        self._known = frozenset(known)
        self._cut = lru_cache(maxsize=20_000)(self._apply)

    def cut(self, word: str) -> tuple[str, ...]:
        """Return a word's pieces, without marks."""
        return self._cut(word) if len(word) <= _CACHED else self._apply(word)

    def _apply(self, word: str) -> tuple[str, ...]:
        if len(word) < 2 or len(word) > LONGEST_WORD:
            return tuple(word)
        symbols = [*word, END] if self.end_apart else [*word[:-1], word[-1] + END]
        while len(symbols) > 1:
            neighbours = set(pairwise(symbols)) & self._rank.keys()
            if not neighbours:
                break
            symbols = list(_merged(symbols, min(neighbours, key=self._rank.__getitem__)))
        *before, last = symbols
        pieces = (*before, last.removesuffix(END)) if last != END else tuple(before)
        return tuple(self._split_unknown(pieces)) if self._known else pieces

    def _split_unknown(self, pieces: tuple[str, ...]) -> Iterator[str]:
        """Undo merges until every piece is known or a single character."""
        waiting = [(pieces[-1], True), *((piece, False) for piece in pieces[-2::-1])]
        while waiting:
            piece, last = waiting.pop()
            parts = self._parts.get(piece + END if last else piece)
            if (piece if last else piece + self.joint) in self._known or parts is None:
                yield piece
                continue
            left, right = parts[0], parts[1].removesuffix(END) if last else parts[1]
            if right:
                waiting.append((right, last))
                waiting.append((left, False))
            else:  # the merge added only the mark
                yield piece


def _merged(symbols: Sequence[str], pair: Pair) -> Iterator[str]:
    at = 0
    while at < len(symbols):
        if at + 1 < len(symbols) and (symbols[at], symbols[at + 1]) == pair:
            yield "".join(pair)
            at += 2
        else:
            yield symbols[at]
            at += 1


def read_codes(data: bytes) -> tuple[list[Pair], bool]:
    """Parse a codes file into pairs, and whether the end-of-word mark is a separate symbol.

    subword-nmt writes a version line and two columns; fastBPE adds a column of counts.

    Raises: `TokenizerError` naming a line that fits neither format.
    """
    try:
        lines = data.decode().replace("\r\n", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise TokenizerError("not UTF-8 text") from None
    if len(lines) > MAX_PIECES:
        raise TokenizerError(f"more than {MAX_PIECES:,} lines")
    version = ""
    if lines[0].startswith("#version:"):
        version = lines[0].split(":")[1].strip()
        if version not in ("0.1", "0.2"):
            raise TokenizerError(f"{lines[0]!r} is not version 0.1 or 0.2")
    pairs, columns = list[Pair](), 0
    for number, line in enumerate(lines, 1):
        if number == 1 and version:
            continue
        parts = line.strip(" ").split(" ")
        columns = columns or len(parts)
        counted = len(parts) == 3 and parts[2].isdigit()
        if len(parts) != columns or not (len(parts) == 2 or counted) or not all(parts):
            raise TokenizerError(f"line {number:,} is not a pair to merge: {line[:60]!r}")
        pairs.append((parts[0], parts[1]))
    return pairs, columns == 2 and version != "0.2"


def read_tokenizer(
    files: Iterable[str], read: Callable[[str], bytes], config: ModelConfig
) -> Tokenizer:
    """Read a checkpoint's tokenizer.

    Args:
        files: names of the files present.
        read: returns the content of one of `TOKENIZER_FILES`.

    Raises: `TokenizerError`, its message starting with the file's name.
    """
    files = set(files)

    def side(names: Sequence[str], size: int, target: Numbered | None = None) -> Numbered:
        model, table, rules = names
        with blaming(table):
            pieces = _json(read(table))
            if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
                raise TokenizerError("expected a JSON list of pieces")
            if len(pieces) != size:  # checked before parsing, which takes memory and time
                raise TokenizerError(f"{len(pieces):,} pieces, but the config requires {size:,}")
        preparation, marks = Preparation(), Marks()
        if rules in files:
            with blaming(rules):
                settings = _json(read(rules))
                if not isinstance(settings, dict):
                    raise TokenizerError("expected a JSON object")
                if settings.get("unit") != BY_MODEL:
                    return RuleTokenizer.of(settings, pieces, config, target)
                marks = Marks.taken(settings)
                if unknown := settings.keys() - {"unit", "preparation"}:
                    raise TokenizerError(f"unknown setting {min(unknown)!r}")
                preparation = Preparation.of(settings.get("preparation", {}))
        with blaming(model):
            return TableTokenizer(read(model), pieces, config, target, preparation, marks)

    if TABLE_FILE not in files:
        with blaming(TOKENIZER_FILE):
            return Tokenizer(read(TOKENIZER_FILE))
    target = None
    if files & set(TARGET_FILES):
        pairs = zip(TARGET_FILES, SOURCE_FILES, strict=True)
        names = [own if own in files else shared for own, shared in pairs]
        target = side(names, config.target_vocab_size)
    return side(SOURCE_FILES, config.vocab_size, target)


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Prefix tokenizer errors with the name of the file."""
    try:
        yield
    except TokenizerError as error:
        raise TokenizerError(f"{name}: {error}") from None


def _json(data: bytes) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise TokenizerError(f"not valid JSON: {error}") from None
