"""The tokenizer of a model of the `transformers` library: text to ids, ids to displayed pieces."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from transformer.search.inputs import whole_ids
from transformer.search.reader import MAX_CHARACTERS
from transformer.text.marks import LANGUAGE, START, Style, as_unknown, marked, style_of, visible
from transformer.text.tokenizer import clean
from transformer.types import BlankError, InputError

#: Default target languages, in order of preference.
PREFERRED = ("de", "deu_Latn", "de_DE", "fr", "fra_Latn", "fr_XX")


@dataclass(frozen=True)
class TokenizedText:
    """A text as the model reads it."""

    text: str  # for display, cleaned (`transformer.text.tokenizer.clean`)
    ids: tuple[int, ...]  # including special tokens added by the tokenizer
    pieces: tuple[str, ...]
    unknown: tuple[int, ...]  # positions of unknown pieces
    special: tuple[int, ...]  # positions of special tokens


class HubTokenizer:
    """A thread-safe tokenizer. Side 0 is the source, side 1 the target."""

    def __init__(self, tokenizer: Any, sizes: tuple[int, int], own_special: Sequence[int]) -> None:
        """Wrap one of the library's tokenizers.

        Args:
            sizes: source and target vocabulary sizes of the model.
            own_special: ids of the model's special tokens.
        """
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._fast = bool(getattr(tokenizer, "is_fast", False))
        self.sizes = sizes
        limit = getattr(tokenizer, "model_max_length", None)
        self.own_limit = limit if isinstance(limit, int) and 0 < limit < 10**6 else None
        unknown = getattr(tokenizer, "unk_token_id", None)
        special = {*tokenizer.all_special_ids} - {unknown}
        # GPT-2 calls its end of text "unknown" too.
        named = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")}
        ids = frozenset({*special, *own_special, *named} - {None})
        self.unknown_id = None if unknown in ids else unknown
        self._n_pieces = len(tokenizer)
        # The library lists special tokens here, too.
        self._added = dict(getattr(tokenizer, "added_tokens_decoder", {}))
        # Pieces of source and target by id, if they differ (Marian, FSMT).
        self.tables: tuple[Mapping[int, str], Mapping[int, str]] | None = None
        encoder, decoder = (getattr(tokenizer, name, None) for name in ("encoder", "decoder"))
        if isinstance(encoder, dict) and isinstance(decoder, dict):
            source = {index: piece for piece, index in encoder.items()}
            # The library itself names source ids by the target's table.
            self.tables = None if source == decoder else (source, decoder)
        # A model of two others may have a vocabulary for each, and a tokenizer for one.
        off = [abs(size - self._n_pieces) for size in sizes]
        self.fits = (True, True) if self.tables else tuple(gap == min(off) for gap in off)
        raw = type(tokenizer).__name__.startswith("ByT5")
        self.style: Style = "raw_bytes" if raw else style_of(tokenizer.get_vocab())
        self._own_languages = {
            side: getattr(tokenizer, side, None) for side in ("src_lang", "tgt_lang")
        }
        self.languages = self._find_languages()
        languages = frozenset(self.languages.values())
        target = ids if self.fits[1] else frozenset(own_special)
        self._special = ids | languages, target | languages

    def _find_languages(self) -> dict[str, int]:
        """Return the ids of language tokens by language; empty for most models."""
        tokenizer = self._tokenizer
        if not hasattr(tokenizer, "src_lang"):
            return {}
        ids = getattr(tokenizer, "lang_code_to_id", None)
        if not ids:
            names = (name for name in tokenizer.all_special_tokens if LANGUAGE.fullmatch(name))
            ids = {name: tokenizer.convert_tokens_to_ids(name) for name in names}
        return {name: index for name, index in ids.items() if index < min(self.sizes)}

    def language(self, option: str, choice: str | None) -> str | None:
        """Return the choice, or the tokenizer's own language, if any, for None.

        Args: option: "src_lang" or "tgt_lang".
        """
        if choice is None:
            own = self._own_languages[option]
            return own if own in self.languages else None
        if not self.languages:
            raise InputError(f"{option}={choice!r}: this model has no languages to choose from")
        if choice not in self.languages:
            allowed = ", ".join(sorted(self.languages))
            raise InputError(f"{option}={choice!r} is not one of: {allowed}")
        return choice

    def cut(
        self,
        text: str,
        most: int,
        *,
        target: bool = False,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> TokenizedText:
        """Tokenize a sentence in the source language, or a target.

        Raises: `InputError` if it is blank or longer than `most` tokens.
        """
        what = "target" if target else "sentence"
        if not isinstance(text, str):
            raise InputError(
                f"a {what} must be text, or one row of token ids, not {type(text).__name__}"
            )
        if len(text) > MAX_CHARACTERS:
            raise InputError(
                f"the {what} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed"
            )
        text = text.encode(errors="ignore").decode()  # removes lone surrogates
        if not clean(text):
            raise (InputError if target else BlankError)(
                f"the {what} is blank; type at least one character"
            )
        if target and not self.fits[1]:
            raise InputError(
                f"this model's tokenizer has {self._n_pieces:,} pieces for its encoder; the "
                f"decoder's vocabulary of {self.sizes[1]:,} has no table, so a target cannot be "
                "given"
            )
        arguments = {"text_target": text} if target else {"text": text}
        with self._lock, self._reading(target=target):
            for name, language in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
                if language is not None:
                    setattr(self._tokenizer, name, language)
            # Nothing is truncated silently, even if the tokenizer's files ask for it.
            encoding = self._tokenizer(
                **arguments, truncation=False, padding=False, return_offsets_mapping=self._fast
            )
            ids = tuple(encoding["input_ids"])
            # Ids of unknown pieces lack the marks of words.
            own, first = ([], 0) if self._fast else self._own_pieces(text, ids, target=target)
        if len(ids) > most:
            raise InputError(
                f"the {what} has {len(ids):,} tokens (special ones included); "
                f"at most {most} are allowed"
            )
        size = self.sizes[target]
        beyond = next((index for index in ids if index >= size), None)
        if beyond is not None:
            raise InputError(
                f"the {what} has the token {beyond}, but the model's ids are 0 to {size - 1}: "
                "the tokenizer does not match the model"
            )
        starts = None
        if self._fast:
            spans = encoding["offset_mapping"]
            starts = [at == 0 or text[at - 1].isspace() for at, _ in spans]
            texts = {at: text[begin:end] for at, (begin, end) in enumerate(spans)}
        else:
            texts = dict(enumerate(own, first))
            if own and self.style in ("word_end", "joined"):
                starts = [texts.get(at, START).startswith(START) for at in range(len(ids))]
        pieces = [*self.shown(ids, side=int(target), starts=starts, text=text)]
        for at, piece in texts.items():
            if ids[at] == self.unknown_id and piece:
                begins = self._fast and starts and starts[at] and pieces[at - 1 : at] != [START]
                piece = visible(piece)
                pieces[at] = as_unknown(START + piece.lstrip(START) if begins else piece)
        return self._tokenized(ids, tuple(pieces), int(target), clean(text))

    def _own_pieces(
        self, text: str, ids: tuple[int, ...], *, target: bool
    ) -> tuple[tuple[str, ...], int]:
        """Return a text's pieces by a tokenizer in Python, unknown ones too, and their position."""
        tokenizer = self._tokenizer
        switches = target and hasattr(tokenizer, "_switch_to_target_mode")  # Marian
        if switches:
            tokenizer._switch_to_target_mode()
        try:
            names = tokenizer.tokenize(text)
            own = tuple(tokenizer.convert_tokens_to_ids(names))
        finally:
            if switches:
                tokenizer._switch_to_input_mode()
        places = range(len(ids) - len(own) + 1)
        first = next((at for at in places if ids[at : at + len(own)] == own), None)
        if first is None:
            return (), 0
        whole = {str(token) for token in self._added.values()}
        alone = {at for at, name in enumerate(names) if name in whole}
        return marked(names, self.style, special=alone), first

    def of_ids(self, ids: Iterable[Any], most: int, *, target: bool = False) -> TokenizedText:
        """Return the text of token ids, including special tokens, as in a trace."""
        pad, eos = (getattr(self._tokenizer, f"{name}_token_id", None) for name in ("pad", "eos"))
        what, size = "target" if target else "source", self.sizes[target]
        tokens = tuple(whole_ids(what, ids, None if pad == eos else pad))
        if not 0 < len(tokens) <= most:
            raise InputError(f"the {what} has {len(tokens):,} tokens; expected 1 to {most}")
        for token in tokens:
            if not 0 <= token < size:
                raise InputError(f"{what} token {token} cannot be used; expected 0 to {size - 1}")
        return self._tokenized(tokens, self.shown(tokens, side=int(target)), int(target))

    def _tokenized(
        self, ids: tuple[int, ...], pieces: tuple[str, ...], side: int, text: str | None = None
    ) -> TokenizedText:
        special = self.special(ids, side)
        if text is None:
            words = (piece for at, piece in enumerate(pieces) if at not in special)
            text = "".join(words).replace(START, " ").strip()
        unknown = tuple(at for at, token in enumerate(ids) if token == self.unknown_id)
        return TokenizedText(text, ids, pieces, unknown, special)

    @contextmanager
    def _reading(self, *, target: bool) -> Iterator[None]:
        """Make FSMT's tokenizer, which only reads sources, read a target."""
        tokenizer = self._tokenizer
        if not target or self.tables is None or hasattr(tokenizer, "target_encoder"):
            yield
            return
        own = tokenizer.encoder, tokenizer.src_lang
        table = {piece: index for index, piece in self.tables[1].items()}
        tokenizer.encoder, tokenizer.src_lang = table, tokenizer.tgt_lang
        try:
            yield
        finally:
            tokenizer.encoder, tokenizer.src_lang = own

    def special(self, ids: Sequence[int], side: int = 1) -> tuple[int, ...]:
        """Return the positions of special tokens."""
        return tuple(at for at, token in enumerate(ids) if token in self._special[side])

    def shown(
        self,
        ids: Sequence[int],
        after: int | None = None,
        *,
        side: int = 1,
        starts: Sequence[bool] | None = None,
        text: str = "",
    ) -> tuple[str, ...]:
        """Return the pieces of consecutive tokens.

        Args:
            after: id of the token before the first, if any.
            starts: True at tokens that start a word, if the text shows it.
            text: text of the tokens, if known.
        """
        names, special = self._names(ids, side), self.special(ids, side)
        alone = {*self._added} - {self.unknown_id}
        added = [
            at for at, token in enumerate(ids)
            if (token in alone or names[at] == f"<{token}>") and at not in special
        ]  # fmt: skip
        before = None
        if after is not None and not self.special((after,), side):
            name = self._names([after], side)[0]
            before = None if name == f"<{after}>" else name
        style = self.style if self.fits[side] else "plain"
        pieces = [*marked(names, style, special={*special, *added}, starts=starts, after=before)]
        end = 0
        for at in added:  # a separate word, unless the text continues without a space
            begin = text.find(names[at], end)
            end = max(begin, 0) + len(names[at])
            marks = at > 0 and pieces[at - 1] == START  # the mark is a piece of its own
            if not marks and (begin < 1 or text[begin - 1].isspace()):
                pieces[at] = START + pieces[at]
        return tuple(pieces)

    def _names(self, ids: Sequence[int], side: int) -> list[str]:
        """Return the vocabulary's names of tokens, or `<id>` for ids without a name."""
        if not self.fits[side]:
            return [f"<{index}>" for index in ids]
        if self.tables is not None:
            table = self.tables[side]
            names = [str(table.get(index, self._added.get(index, ""))) for index in ids]
        else:
            with self._lock:
                try:
                    names = self._tokenizer.convert_ids_to_tokens(list(ids))
                except (IndexError, KeyError):  # a model may have more rows than the vocabulary
                    names = [""] * len(ids)
        # Tokenizers in Python call ids without a piece unknown.
        missing = None if self._fast else getattr(self._tokenizer, "unk_token", None)
        return [
            name if name and (name != missing or index == self.unknown_id) else f"<{index}>"
            for index, name in zip(ids, names, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, without special tokens."""
        if not self.fits[1]:
            return " ".join(self._names(ids, 1))
        text = [token for token in ids if token not in self._special[1] and token < self._n_pieces]
        with self._lock:
            return str(self._tokenizer.decode(text, skip_special_tokens=True)).strip()
