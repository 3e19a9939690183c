"""Read and check a translator's arguments: sources, targets, prefixes and length limits."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from transformer.config import ModelConfig
from transformer.edits.language import Edit
from transformer.search.inputs import check_length, checked_ids, checked_whole
from transformer.text.marks import as_unknown
from transformer.text.tokenizer import Tokenized, Tokenizer, clean
from transformer.types import BlankError, InputError

#: Tokens by which a translation may exceed its source in the paper (section 6.1); 300 for parses
#: (section 6.3).
EXTRA_LENGTH = 50
MAX_CHARACTERS = 10_000  # longest sentence, checked before tokenising

#: Token ids: a sequence of integers, or an array of NumPy or PyTorch with one axis.
Ids = Collection[Any]
Prefix = str | Ids | None

Read = TypeVar("Read")


class Reader:
    """Turns sentences and token ids into checked ids; raises `InputError` with one line."""

    def __init__(
        self, config: ModelConfig, tokenizer: Tokenizer, max_tokens: int, extra_length: int
    ) -> None:
        """Args:
        max_tokens: longest source and translation, counting `</s>`.
        extra_length: tokens by which a translation may exceed its source by default.
        """
        self.config, self.tokenizer, self.max_tokens = config, tokenizer, max_tokens
        self.extra_length = extra_length
        self.edits: tuple[Edit, ...] = ()  # of the reading model

    def tokenize(self, sentence: str, tokenizer: Tokenizer | None = None) -> Tokenized:
        """Split a sentence into pieces, by the source's tokenizer unless another is given."""
        if not isinstance(sentence, str):
            raise InputError(
                f"a sentence must be text, or one row of token ids, not {type(sentence).__name__}"
            )
        if len(sentence) > MAX_CHARACTERS:
            raise InputError(
                f"the sentence has {len(sentence):,} characters; "
                f"at most {MAX_CHARACTERS:,} are allowed"
            )
        tokenized = (tokenizer or self.tokenizer).tokenize(sentence)
        check_length(tokenized.ids, self.max_tokens)
        return tokenized

    def source(self, sentence: str | Ids) -> "Source":
        """Return the encoder's input.

        Args: sentence: text, or token ids of any segmentation (with or without `</s>`).
        """
        listed = isinstance(sentence, Sequence) or getattr(sentence, "ndim", 0) == 1
        if listed and not isinstance(sentence, str | bytes | bytearray):
            ids = checked_ids("source", sentence, self.config, self.config.vocab_size)
            check_length(ids, self.max_tokens)
            strange = {self.config.unk_id, *self.tokenizer.byte_ids}
            ended = (*ids, self.config.eos_id) if ids else ()
            unknown = tuple(position for position, token in enumerate(ids) if token in strange)
            pieces = self.tokenizer.shown(ended)
            return Source(self.tokenizer.decode(ids), ended, pieces, unknown, ())
        tokenized = self.tokenize(sentence)  # type: ignore[arg-type]  # refused unless text
        text, eos = clean(sentence), self.config.eos_id  # type: ignore[arg-type]
        if not tokenized.ids:
            return Source(text, (), (), (), ())
        pieces = (*self._pieces(tokenized), self.tokenizer.id_to_piece(eos))
        unknown = tokenized.unknown
        return Source(text, (*tokenized.ids, eos), pieces, unknown, unknown_text(tokenized))

    def sources(self, sentences: Iterable[str | Ids], *, blank: bool = True) -> "list[Source]":
        """Read sentences with `source`; errors name the sentence, counted from 1.

        Args: blank: whether blank sentences are allowed.
        """

        def read(sentence: str | Ids) -> Source:
            source = self.source(sentence)
            if not blank and not source.ids:
                raise BlankError("the sentence is blank; type at least one character")
            return source

        return _each("sentence", sentences, read)

    def targets(self, targets: Iterable[str | Ids], n_sources: int) -> "list[Target]":
        """Read a translation of each source with `target`; errors name the target."""
        read = _each("target", targets, self.target)
        if len(read) != n_sources:
            raise InputError(f"{len(read)} targets for {n_sources} sentences; give one for each")
        return read

    def target(self, target: str | Ids) -> "Target":
        """Return the tokens that the decoder predicts, ending in `</s>`."""
        eos, spell = self.config.eos_id, self.tokenizer.target
        if isinstance(target, str):
            cut = self.tokenize(target, spell)
            if not cut.ids:
                raise InputError("the target is blank; type at least one character")
            return Target((*cut.ids, eos), (*self._pieces(cut), spell.id_to_piece(eos)))
        ids = [*checked_ids("target", target, self.config), eos]
        if len(ids) > self.max_tokens:
            raise InputError(
                f"the target has {len(ids):,} tokens; at most {self.max_tokens} are allowed"
            )
        return Target(tuple(ids), spell.shown(ids))

    def prefix(self, prefix: Prefix) -> "Target":
        """Return the first tokens of all translations."""
        spell = self.tokenizer.target
        if isinstance(prefix, str):
            cut = self.tokenize(prefix, spell)
            return Target(cut.ids, self._pieces(cut))
        ids = () if prefix is None else checked_ids("prefix", prefix, self.config, ended=False)
        return Target(tuple(ids), spell.shown(ids, self.config.bos_id))

    def _pieces(self, cut: Tokenized) -> tuple[str, ...]:
        """Return the pieces of a text, marked where the model reads `<unk>`."""
        unknown = self.config.unk_id
        pairs = zip(cut.pieces, cut.ids, strict=True)
        return tuple(as_unknown(piece) if index == unknown else piece for piece, index in pairs)

    def limit(self, n_source: int, max_length: int | None, forced: Sequence[int]) -> int:
        """Return the longest translation of `n_source` tokens, both counting `</s>`."""
        limit = n_source + self.extra_length
        if max_length is not None:
            limit = checked_whole("max_length", max_length)
        limit = min(limit, self.max_tokens)
        if len(forced) >= limit:
            raise InputError(
                f"the prefix has {len(forced):,} tokens; the translation may have {limit} at most"
            )
        return limit


@dataclass(frozen=True)
class Target:
    """A translation, or the start of one, for the decoder to follow."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A source sentence, ready for the encoder."""

    text: str  # the sentence, cleaned (`transformer.text.tokenizer.clean`)
    ids: tuple[int, ...]  # with `</s>` at the end; empty for a blank sentence
    pieces: tuple[str, ...]
    unknown: tuple[int, ...]  # positions in `pieces` outside the vocabulary
    unknown_text: tuple[str, ...]  # the text at these positions


def _each(what: str, items: Iterable[str | Ids], read: Callable[[str | Ids], Read]) -> list[Read]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        kind = "one text" if isinstance(items, str) else type(items).__name__
        raise InputError(f"the {what}s must be a list of {what}s, not {kind}")
    results, every = [], list(items)
    for index, item in enumerate(every, 1):
        try:
            results.append(read(item))
        except InputError as error:
            raise type(error)(f"{what} {index}: {error}" if len(every) > 1 else error) from None
    return results


def unknown_text(tokenized: Tokenized) -> tuple[str, ...]:
    """Return the text at unknown positions; a character spelled in bytes counts once."""
    texts: list[str] = []
    previous = -2
    for position in tokenized.unknown:
        surface = tokenized.surfaces[position]
        # All byte pieces of a character have its text.
        if surface and not (position == previous + 1 and texts and texts[-1] == surface):
            texts.append(surface)
        previous = position
    return tuple(texts)
