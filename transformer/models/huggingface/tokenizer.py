"""The tokenizer of a model of the `transformers` library: text to ids, ids to displayed pieces."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.errors import CheckpointError, InputError
from transformer.files.safe import MAX_SMALL_FILE, MAX_TABLE, json_object, read_small
from transformer.models.huggingface.files import CONFIG, GENERATION, INDEX, library
from transformer.search.inputs import whole_ids
from transformer.search.reader import MAX_CHARACTERS
from transformer.text.limits import (
    check_pieces,
    check_tokenizer_json,
    checked_sentencepiece,
)
from transformer.text.marks import LANGUAGE, START, Style, marked, style_of
from transformer.text.tokenizer import clean

TOKENIZER_CONFIG = "tokenizer_config.json"
#: Suffixes of tokenizer files.
SUFFIXES = (
    ".json", ".txt", ".model", ".spm", ".bpe", ".codes", ".vocab", ".tiktoken", ".tokenizer",
)  # fmt: skip

#: Default target languages, in order of preference.
PREFERRED = ("de", "deu_Latn", "de_DE", "fr", "fra_Latn", "fr_XX")


@dataclass(frozen=True)
class TokenizedText:
    """A text as the model reads it."""

    text: str  # for display, cleaned (`transformer.text.tokenizer.clean`)
    #: ids, pieces: including special tokens added by the tokenizer
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    #: unknown, special: positions of unknown pieces, and of special tokens
    unknown: tuple[int, ...]
    special: tuple[int, ...]


def _two_tables(tokenizer: Any) -> tuple[Mapping[int, str], Mapping[int, str]] | None:
    """Return the pieces by id of source and target if these differ (Marian, FSMT), else None.

    The library itself names source ids by the target's table.
    """
    encoder, decoder = (getattr(tokenizer, name, None) for name in ("encoder", "decoder"))
    if not isinstance(encoder, dict) or not isinstance(decoder, dict):
        return None
    source = {index: piece for piece, index in encoder.items()}
    return None if source == decoder else (source, decoder)


class HubTokenizer:
    """A thread-safe tokenizer."""

    def __init__(self, tokenizer: Any, sizes: tuple[int, int], own_special: Sequence[int]) -> None:
        """Wrap one of the library's tokenizers.

        Args:
            sizes: of the model's source and target vocabularies.
            own_special: ids that the model itself treats as special.
        """
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self.sizes = sizes
        limit = getattr(tokenizer, "model_max_length", None)
        self.own_limit = limit if isinstance(limit, int) and 0 < limit < 10**6 else None
        unknown = getattr(tokenizer, "unk_token_id", None)
        special = {*tokenizer.all_special_ids} - {unknown}
        # GPT-2 calls its end of text "unknown" too.
        named = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")}
        self.special_ids = frozenset({*special, *own_special, *named} - {None})
        self.unknown_id = None if unknown in self.special_ids else unknown
        self._n_known = len(tokenizer)
        # The library lists special tokens here, too.
        self._added = dict(getattr(tokenizer, "added_tokens_decoder", {}))
        self.tables = _two_tables(tokenizer)
        # A model of two others may have a vocabulary for each, and a tokenizer for one.
        off = [abs(size - self._n_known) for size in sizes]
        self.fits = (True, True) if self.tables else tuple(each == min(off) for each in off)
        self._source_special = self.special_ids
        if not self.fits[1]:
            self.special_ids = frozenset(own_special)
        raw = type(tokenizer).__name__.startswith("ByT5")
        self.style: Style = "raw_bytes" if raw else style_of(tokenizer.get_vocab())
        self._own_languages = {
            which: getattr(tokenizer, which, None) for which in ("src_lang", "tgt_lang")
        }
        self.languages = self._find_languages()
        self.special_ids |= frozenset(self.languages.values())

    def _find_languages(self) -> dict[str, int]:
        """Return the ids of language tokens by language; empty for most models."""
        tokenizer = self._tokenizer
        if not hasattr(tokenizer, "src_lang"):
            return {}
        given = getattr(tokenizer, "lang_code_to_id", None)
        if not given:
            names = (name for name in tokenizer.all_special_tokens if LANGUAGE.fullmatch(name))
            given = {name: tokenizer.convert_tokens_to_ids(name) for name in names}
        return {name: index for name, index in given.items() if index < min(self.sizes)}

    def language(self, which: str, asked: str | None) -> str | None:
        """Return the language `asked`, or the tokenizer's own; None without a choice.

        Args: which: "src_lang" or "tgt_lang".
        """
        if asked is None:
            own = self._own_languages[which]
            return own if own in self.languages else None
        if not self.languages:
            raise InputError(f"{which}={asked!r}: this model has no languages to choose from")
        if asked not in self.languages:
            known = ", ".join(sorted(self.languages))
            raise InputError(f"{which}={asked!r} is not one of: {known}")
        return asked

    def cut(
        self,
        text: str,
        most: int,
        *,
        target: bool = False,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> TokenizedText:
        """Tokenize a source sentence, or with `target` a text in the target language.

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
        text = text.encode(errors="ignore").decode()  # lone surrogates are no text
        if not clean(text):
            raise InputError(f"the {what} is blank; type at least one character")
        if target and not self.fits[1]:
            raise InputError(
                f"this model's tokenizer has {self._n_known:,} pieces, which are the encoder's; "
                f"the decoder's vocabulary of {self.sizes[1]:,} has no table, so a target cannot "
                "be given"
            )
        asked = {"text_target": text} if target else {"text": text}
        fast = bool(getattr(self._tokenizer, "is_fast", False))
        with self._lock, self._reading(target=target):
            for name, language in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
                if language is not None:
                    setattr(self._tokenizer, name, language)
            # Nothing is truncated silently, whatever the tokenizer's files say.
            found = self._tokenizer(
                **asked, truncation=False, padding=False, return_offsets_mapping=fast
            )
            # Ids of unknown pieces have lost the marks of words.
            losing = not fast and self.style in ("word_end", "joined")
            cut = self._tokenizer.tokenize(text) if losing else []
        ids = tuple(found["input_ids"])
        if len(ids) > most:
            raise InputError(
                f"the {what} has {len(ids):,} tokens (special ones included); "
                f"at most {most} are allowed"
            )
        size = self.sizes[target]
        beyond = next((index for index in ids if index >= size), None)
        if beyond is not None:
            raise InputError(
                f"the {what} has the token {beyond}, but the model knows 0 to "
                f"{size - 1}: the tokenizer does not match it"
            )
        starts = None
        if fast:  # where words start
            starts = [at == 0 or text[at - 1].isspace() for at, _ in found["offset_mapping"]]
        elif losing:
            whole = {str(each) for each in self._added.values()}
            alone = {at for at, piece in enumerate(cut) if piece in whole}
            begun = [piece.startswith(START) for piece in marked(cut, self.style, special=alone)]
            before = next(
                (at for at, each in enumerate(ids) if each not in self._source_special), 0
            )
            starts = [*[True] * before, *begun, *[True] * len(ids)][: len(ids)]
        return TokenizedText(
            text=clean(text),
            ids=ids,
            pieces=self.shown(ids, source=not target, starts=starts, text=text),
            unknown=tuple(at for at, each in enumerate(ids) if each == self.unknown_id),
            special=self.special(ids, source=not target),
        )

    def given(self, ids: Iterable[Any], most: int, *, target: bool = False) -> TokenizedText:
        """Return a text given as token ids, special ones included, as in a trace."""
        pad, eos = (getattr(self._tokenizer, f"{each}_token_id", None) for each in ("pad", "eos"))
        what, size = "target" if target else "source", self.sizes[target]
        read = tuple(whole_ids(what, ids, None if pad == eos else pad))
        if not 0 < len(read) <= most:
            raise InputError(f"the {what} has {len(read):,} tokens; allowed are 1 to {most}")
        for each in read:
            if not 0 <= each < size:
                raise InputError(f"{what} token {each} cannot be used; allowed are 0 to {size - 1}")
        pieces = self.shown(read, source=not target)
        special = self.special(read, source=not target)
        words = (piece for at, piece in enumerate(pieces) if at not in special)
        return TokenizedText(
            "".join(words).replace(START, " ").strip(), read, pieces,
            tuple(at for at, each in enumerate(read) if each == self.unknown_id), special,
        )  # fmt: skip

    @contextmanager
    def _reading(self, *, target: bool) -> Iterator[None]:
        """Have FSMT's tokenizer, which only reads sources, read a target."""
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

    def special(self, ids: Sequence[int], *, source: bool = False) -> tuple[int, ...]:
        """Return the positions of special tokens."""
        special = self.special_ids | self._source_special if source else self.special_ids
        return tuple(at for at, each in enumerate(ids) if each in special)

    def shown(
        self,
        ids: Sequence[int],
        after: int | None = None,
        *,
        source: bool = False,
        starts: Sequence[bool] | None = None,
        text: str = "",
    ) -> tuple[str, ...]:
        """Return the pieces of consecutive tokens.

        Args:
            after: id of the token before the first, if any.
            source: the ids belong to the source vocabulary.
            starts: whether a word starts at each, if known from the text.
            text: which they are, if known.
        """
        names, special = self._names(ids, source=source), self.special(ids, source=source)
        alone = {*self._added} - {self.unknown_id}
        added = [at for at, each in enumerate(ids) if each in alone and at not in special]
        before = None
        if after is not None and not self.special((after,), source=source):
            before = self._names([after], source=source)[0]
        style = self.style if self.fits[0 if source else 1] else "plain"
        pieces = [*marked(names, style, special={*special, *added}, starts=starts, after=before)]
        end = 0
        for at in added:  # a separate word, unless the text runs on
            begin = text.find(names[at], end)
            end = max(begin, 0) + len(names[at])
            marks = at > 0 and pieces[at - 1] == START  # a piece of its own
            if not marks and (begin < 1 or text[begin - 1].isspace()):
                pieces[at] = START + pieces[at]
        return tuple(pieces)

    def _names(self, ids: Sequence[int], *, source: bool = False) -> list[str]:
        """Return the vocabulary's names of tokens; ids without one are named by their number."""
        if not self.fits[0 if source else 1]:
            return [f"<{index}>" for index in ids]
        if self.tables is not None:
            table = self.tables[0 if source else 1]
            found = [str(table.get(index, self._added.get(index, ""))) for index in ids]
        else:
            with self._lock:
                try:
                    found = self._tokenizer.convert_ids_to_tokens(list(ids))
                except (IndexError, KeyError):  # a model may have more rows than the vocabulary
                    found = [""] * len(ids)
        # Tokenizers in Python call ids without a piece unknown.
        fast = getattr(self._tokenizer, "is_fast", False)
        missing = None if fast else getattr(self._tokenizer, "unk_token", None)
        return [
            name if name and (name != missing or index == self.unknown_id) else f"<{index}>"
            for index, name in zip(ids, found, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, without special tokens."""
        if not self.fits[1]:
            return " ".join(self._names(ids))
        known = [each for each in ids if each not in self.special_ids and each < self._n_known]
        with self._lock:
            return str(self._tokenizer.decode(known, skip_special_tokens=True)).strip()


def read_tokenizer(
    folder: Path,
    values: Mapping[str, Any],
    config: Any,
    sizes: tuple[int, int],
    special: Sequence[int],
) -> HubTokenizer:
    """Read the tokenizer in a model's folder.

    The library gets copies of the tokenizer's own files; names of other files are removed from the
    settings.

    Args:
        values: the checked values of config.json.
        config: the library's config.
        sizes, special: see `HubTokenizer`.

    Raises: `CheckpointError` naming the file and what is wrong.
    """
    transformers = library(folder)
    with tempfile.TemporaryDirectory(prefix="headlight-tokenizer-") as copied:
        copies, left = Path(copied), MAX_SMALL_FILE
        names = sorted(each.name for each in folder.iterdir() if each.suffix in SUFFIXES)
        for name in names:
            if name in (CONFIG, GENERATION, "adapter_config.json") or name.endswith(INDEX):
                continue
            if name == TOKENIZER_CONFIG:
                settings = _settings(folder / name)
                (copies / name).write_text(json.dumps(settings), encoding="utf-8")
            else:
                data = read_small(folder / name, left)
                left -= len(data)
                _check_file(folder / name, data)
                (copies / name).write_bytes(data)
        if not any(copies.iterdir()):
            raise CheckpointError(f"{folder}: the tokenizer's files are missing")
        (copies / CONFIG).write_text(json.dumps(dict(values)), encoding="utf-8")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                copied, config=config, local_files_only=True, trust_remote_code=False
            )
        except BaseException as error:
            # A damaged file may make the library's Rust code panic, which is not an Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            reason = " ".join(str(error).replace(copied, ".").split())[:300]
            raise CheckpointError(f"{folder}: the tokenizer cannot be read ({reason})") from None
    return checked_tokenizer(str(folder), tokenizer, sizes, special)


def _check_file(path: Path, data: bytes) -> None:
    """Check a tokenizer file's limits. Raises `CheckpointError` naming the file."""
    try:
        if path.suffix in (".model", ".spm"):
            checked_sentencepiece(data)
        elif path.name.startswith("tokenizer.") and path.suffix == ".json":
            check_tokenizer_json(data)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: the tokenizer cannot be read ({error})") from None


def checked_tokenizer(
    where: str, tokenizer: Any, sizes: tuple[int, int], special: Sequence[int]
) -> HubTokenizer:
    """Wrap one of the library's tokenizers. Raises `CheckpointError` if it is another model's."""
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise InputError(f"not a tokenizer of the transformers library: {tokenizer!r:.80}")
    try:
        check_pieces(tokenizer.get_vocab())
    except ValueError as error:
        raise CheckpointError(f"{where}: the tokenizer has {error}") from None
    found = HubTokenizer(tokenizer, sizes, special)
    n_pieces = int(tokenizer.vocab_size)
    counts = tuple(map(len, found.tables)) if found.tables else (n_pieces, n_pieces)
    for side, size, count, fits in zip(
        ("source", "target"), sizes, counts, found.fits, strict=True
    ):
        if (fits and count > size) or (side == "source" and not fits):
            raise CheckpointError(
                f"{where}: the tokenizer has {count:,} pieces, "
                f"but the model's {side} vocabulary has {size:,}"
            )
    return found


def _settings(path: Path) -> dict[str, Any]:
    """Return tokenizer_config.json without names of files, which have standard names."""
    values = json_object(path, MAX_TABLE)
    if values.get("auto_map"):
        raise CheckpointError(f"{path}: auto_map asks for the model's own code, which is never run")
    dropped = ("name_or_path", "_commit_hash", "chat_template", "vocab", "merges")
    return {
        key: value
        for key, value in values.items()
        if not (key in dropped or (key.endswith(("_file", "_spm")) and isinstance(value, str)))
    }
