"""Tokenizers without SentencePiece: byte-pair merges from a file of codes, words, characters.

Their vocabularies mark a piece that does not end its word (`fro@@ g`). Everywhere else in this
project a mark stands where a word starts (`▁fro g`), so pieces that are shown are written that way;
`pieces` keeps what the vocabulary says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, cast, get_args

from transformer.config import ModelConfig
from transformer.text.merges import END, Merges, Pair
from transformer.text.normalise import Preparation
from transformer.text.table import Marks, Numbered
from transformer.text.tokenizer import Tokenized, TokenizerError

Unit = Literal["merges", "word", "char"]


class RuleTokenizer(Numbered):
    """Cuts at spaces, and words further by merges; or into characters."""

    def __init__(
        self,
        unit: Unit,
        table: Sequence[str],
        config: ModelConfig,
        target: Numbered | None = None,
        preparation: Preparation = Preparation(),  # noqa: B008 - it cannot change
        *,
        merges: Sequence[Pair] = (),
        end_apart: bool = False,
        joint: str | None = None,
        within: bool = False,
        marks: Marks = Marks(),  # noqa: B008
    ) -> None:
        """Join rules and a table of pieces, in the order of their ids.

        Args:
            unit: what is cut: "merges" within words, "word" at spaces only, "char" everywhere.
            config: says which ids are special.
            target: the other side's tokenizer, where it is not this one.
            preparation: what is done to text before it is cut.
            merges, end_apart: see `Merges`.
            joint: the mark of a piece that does not end its word; "" where none has a mark.
                Default "@@" for merges, else "". With "word" the text is marked already.
            within: take merges back whose result the vocabulary lacks.
            marks: pieces that are not text.

        Raises: `TokenizerError` where the table, or the merges for it, cannot be right.
        """
        joint = ("@@" if unit == "merges" else "") if joint is None else joint
        if unit == "merges" and not joint:
            raise TokenizerError("a piece that does not end its word needs a mark")
        self._unit, self._joint, self._within = unit, joint, within
        self._number(table, config, target, preparation, marks)
        known = self._ids.keys() - {*marks.tags, marks.separator} if within else ()
        self._merges = Merges(merges, end_apart=end_apart, known=known, joint=joint)
        self._check_merges()
        self._model, self._is_byte = b"", (False,) * len(table)
        self.byte_ids = frozenset()
        self._kind = unit

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        table: Sequence[str],
        config: ModelConfig,
        target: Numbered | None = None,
    ) -> RuleTokenizer:
        """What `settings` describes. Raises `TokenizerError` naming what cannot be."""
        values = dict(settings)
        unit, pairs = values.pop("unit", None), values.pop("merges", [])
        preparation, marks = Preparation.of(values.pop("preparation", {})), Marks.taken(values)
        if unit not in get_args(Unit):
            raise TokenizerError(f"unit={unit!r} is not one of: {', '.join(get_args(Unit))}")
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair)
            for pair in pairs
        ):
            raise TokenizerError("merges are pairs of texts")
        for name, kind in (("end_apart", bool), ("within", bool), ("joint", str)):
            if not isinstance(values.get(name, kind()), kind):
                raise TokenizerError(f"{name}={values[name]!r} is not as it has to be")
        if unknown := values.keys() - {"end_apart", "within", "joint"}:
            raise TokenizerError(f"unknown setting {min(unknown)!r}")
        merges = [cast(Pair, tuple(pair)) for pair in pairs]
        return cls(unit, table, config, target, preparation, merges=merges, marks=marks, **values)

    @property
    def settings(self) -> dict[str, Any]:
        """What `of` reads."""
        rules: dict[str, Any] = {"unit": self._unit, **super().settings}
        if self._joint:
            rules["joint"] = self._joint
        if self._unit == "merges":
            rules |= {
                "end_apart": self._merges.end_apart,
                "within": self._within,
                "merges": [list(pair) for pair in self._merges.pairs],
            }
        return rules

    def tokenize(self, text: str) -> Tokenized:
        """Cut a sentence into pieces, after `prepared`; pieces are written as they are shown."""
        found: list[tuple[str, str]] = []  # as the vocabulary writes it, as it is shown
        if self._unit == "char":
            found = [(each, each) for each in self.normalize(text)]
        else:
            starts = True
            for word in self.prepared(text).split():
                *before, last = self._merges.cut(word) if self._unit == "merges" else (word,)
                written = [*(piece + self._joint for piece in before), last]
                for each in written:
                    found.append((each, self._as_shown(each, starts)))
                    starts = not self._is_open(each)
        ids = tuple(self.piece_to_id(piece) for piece, _ in found)
        return Tokenized(
            pieces=tuple(shown for _, shown in found),
            ids=ids,
            surfaces=tuple(shown.replace("▁", " ").strip() for _, shown in found),
            unknown=tuple(at for at, index in enumerate(ids) if index == self.unk_id),
        )

    def shown(self, ids: Sequence[int], after: int | None = None) -> tuple[str, ...]:
        """See `Tokenizer.shown`: what starts a word depends on the piece before it."""
        pieces, starts = [], after is None or not self._goes_on(after)
        for index in ids:
            piece = self.pieces[index]
            special = index in self._special or self._unit == "char"
            pieces.append(piece if special else self._as_shown(piece, starts))
            starts = not self._goes_on(index)
        return tuple(pieces)

    def _goes_on(self, index: int) -> bool:
        """Whether the word of this piece continues after it."""
        return index not in self._special and self._is_open(self.pieces[index])

    def _is_open(self, piece: str) -> bool:
        return bool(self._joint) and piece.endswith(self._joint) and piece != self._joint

    def _as_shown(self, piece: str, starts: bool) -> str:
        plain = piece.removesuffix(self._joint) if self._is_open(piece) else piece
        return f"▁{plain}" if starts else plain

    def _check_merges(self) -> None:
        """Refuse merges that hardly make anything that the table knows."""
        made = {
            joined.removesuffix(END) if joined.endswith(END) else joined + self._joint
            for joined in map("".join, self._merges.pairs)
        }
        n_shared = len(made & self._ids.keys())
        # Joint merges of both languages, and those that only lead to others, leave less than half.
        if 10 * n_shared < len(made):
            raise TokenizerError(
                f"only {n_shared:,} of the {len(made):,} pieces that it makes are in the "
                "vocabulary, so the two are not of one model"
            )

    def normalize(self, text: str) -> str:
        """The text that is cut: prepared, spaces written as `▁`."""
        prepared = self.prepared(text)
        if self._unit == "char" or not prepared:
            return prepared.replace(" ", "▁")
        marked = self._unit == "word"  # then the text is typed as it is cut
        return "▁" + (self._closed(prepared) if marked else prepared).replace(" ", "▁")

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """Minus the place in the vocabulary, which such lists order by frequency."""
        return tuple(0.0 if i in self._special else -float(i) for i in range(len(self.pieces)))

    def sample(self, text: str, *, alpha: float) -> list[int]:
        """The one cut that there is; merges are not left out."""
        return self.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of a token sequence; special tokens other than the unknown one are left out."""
        kept = self._kept(ids)
        if self._unit == "char":
            return self.preparation.undo("".join(kept).replace("▁", " ").strip())
        return self.preparation.undo(self._closed(" ".join(kept)))

    def _closed(self, text: str) -> str:
        """Join the pieces of words."""
        return f"{text} ".replace(f"{self._joint} ", "").rstrip() if self._joint else text
