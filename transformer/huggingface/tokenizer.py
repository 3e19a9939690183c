"""The tokenizer of a model of the `transformers` library: text to ids, ids to displayed pieces."""

from __future__ import annotations

import json
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

from transformer.errors import CheckpointError, InputError
from transformer.files.safe import MAX_TABLE, json_object, read_small
from transformer.huggingface.files import CONFIG, GENERATION, INDEX, library
from transformer.search.reader import MAX_CHARACTERS
from transformer.text.tokenizer import clean

#: How a vocabulary marks words. SentencePiece writes `▁` (U+2581) at the start of one, as this
#: project does; byte-level BPE (GPT-2, BART) has a character for every byte, `Ġ` for a space;
#: WordPiece (BERT) marks pieces that continue a word by `##`; older BPE (XLM, GPT) marks the ends
#: of words by `</w>`.
Style = Literal["sentencepiece", "bytes", "raw_bytes", "wordpiece", "word_end", "plain"]

START, CONTINUES, ENDS = "\u2581", "##", "</w>"
BYTE_SPACE = "\u0120"


def style_of(vocabulary: Iterable[str]) -> Style:
    """Return the style of most pieces of a vocabulary."""
    counts: dict[Style, int] = {"sentencepiece": 0, "bytes": 0, "wordpiece": 0, "word_end": 0}
    for piece in vocabulary:
        counts["sentencepiece"] += piece.startswith(START)
        counts["bytes"] += piece.startswith(BYTE_SPACE)
        counts["wordpiece"] += piece.startswith(CONTINUES) and piece != CONTINUES
        counts["word_end"] += piece.endswith(ENDS)
    best = max(counts, key=lambda style: counts[style])
    return best if counts[best] else "plain"


@cache
def byte_characters() -> dict[str, int]:
    """Return the byte for each character of byte-level BPE.

    Visible characters of Latin-1 stand for themselves; the other 68 bytes, in order, are written
    as the characters from U+0100.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in visible)
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + order): byte for order, byte in enumerate(hidden)
    }


def rewritten(piece: str, style: Style, *, starts: bool | None = None) -> str:
    """Return a piece with `▁` at the start of a word, and bytes as the text they spell.

    Args: starts: whether a word starts here, if known from the text; None decides by the piece.
    """
    if style == "bytes":
        table = byte_characters()
        if all(character in table for character in piece):
            return _spelled(bytes(table[character] for character in piece))
        return _marked(piece)
    if style == "raw_bytes":
        return _spelled(bytes(map(ord, piece))) if max(map(ord, piece), default=0) < 256 else piece
    if style == "wordpiece":
        goes_on = piece.startswith(CONTINUES) and piece != CONTINUES
        body = piece.removeprefix(CONTINUES) if goes_on else piece
        if starts is None:
            # Without the text, a single punctuation mark is assumed to follow a word directly.
            starts = not (goes_on or (len(body) == 1 and unicodedata.category(body)[0] == "P"))
        return START + body if starts else body
    if style == "word_end":
        body = piece.removesuffix(ENDS)
        return START + body if starts else body
    return piece if style == "sentencepiece" else _marked(piece)


def _marked(text: str) -> str:
    return text.replace(" ", START)


def _spelled(data: bytes) -> str:
    """Decode bytes; those that are not text, such as part of a character, become `<0xE2>`."""
    # Bytes that are not UTF-8 become lone surrogates from U+DC80.
    written = []
    for character in data.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            written.append(f"<0x{code - 0xDC00:02X}>")
        elif character == " ":
            written.append(START)
        elif code < 0x20 or code == 0x7F:
            written.append(f"<0x{code:02X}>")
        else:
            written.append(character)
    return "".join(written)


TOKENIZER_CONFIG = "tokenizer_config.json"
#: Suffixes of tokenizer files.
SUFFIXES = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab", ".tiktoken")

#: Language codes in vocabularies without a list of them: `deu_Latn`, `de_DE`.
LANGUAGE = re.compile(r"[a-z]{2,3}_([A-Z]{2}|[A-Z][a-z]{3})")
#: Default target languages, in order of preference.
PREFERRED = ("de", "deu_Latn", "de_DE", "fr", "fra_Latn", "fr_XX")


@dataclass(frozen=True)
class TokenizedText:
    """A text as the model reads it."""

    text: str  # cleaned (`transformer.text.tokenizer.clean`)
    #: ids, pieces: including special tokens added by the tokenizer
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    #: unknown, special: positions of unknown pieces, and of special tokens
    unknown: tuple[int, ...]
    special: tuple[int, ...]


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
        self._added = frozenset(getattr(tokenizer, "added_tokens_decoder", ()))
        raw = type(tokenizer).__name__.startswith("ByT5")
        self.style: Style = "raw_bytes" if raw else style_of(tokenizer.get_vocab())
        # If the two sides number pieces differently, the library names only the target's.
        self._source_names: Mapping[int, str] | None = None
        if getattr(tokenizer, "separate_vocabs", False):
            self._source_names = {index: piece for piece, index in tokenizer.encoder.items()}
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
        """Return the language `asked`, or the tokenizer's own; None if there is no choice.

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
            raise InputError(f"a {what} must be text, not {type(text).__name__}")
        if len(text) > MAX_CHARACTERS:
            raise InputError(
                f"the {what} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed"
            )
        text = clean(text)
        if not text:
            raise InputError(f"the {what} is blank; type at least one character")
        asked = {"text_target": text} if target else {"text": text}
        offsets = self.style == "wordpiece" and bool(getattr(self._tokenizer, "is_fast", False))
        with self._lock:
            for name, language in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
                if language is not None:
                    setattr(self._tokenizer, name, language)
            # Nothing is truncated silently, whatever the tokenizer's files say.
            found = self._tokenizer(
                **asked, truncation=False, padding=False, return_offsets_mapping=offsets
            )
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
        if offsets:  # where words start
            starts = [at == 0 or text[at - 1].isspace() for at, _ in found["offset_mapping"]]
        return TokenizedText(
            text=text,
            ids=ids,
            pieces=self.shown(ids, source=not target, starts=starts),
            unknown=tuple(at for at, each in enumerate(ids) if each == self.unknown_id),
            special=self.special(ids),
        )

    def special(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of special tokens."""
        return tuple(at for at, each in enumerate(ids) if each in self.special_ids)

    def shown(
        self,
        ids: Sequence[int],
        after: int | None = None,
        *,
        source: bool = False,
        starts: Sequence[bool] | None = None,
    ) -> tuple[str, ...]:
        """Return the pieces of consecutive tokens.

        Args:
            after: id of the token before the first, if any.
            source: the ids belong to the source vocabulary.
            starts: whether a word starts at each, if known from the text.
        """
        names = self._names(ids, source=source)
        if self.style == "word_end" and starts is None:
            before = (None if after is None else self._names([after])[0], *names[:-1])
            starts = [each is None or each.endswith(ENDS) for each in before]
        known = starts or repeat(None, len(ids))
        return tuple(self._piece(*each) for each in zip(ids, names, known, strict=True))

    def _names(self, ids: Sequence[int], *, source: bool = False) -> list[str]:
        """Return the vocabulary's names of tokens; ids beyond it are named by their number."""
        if source and self._source_names is not None:
            return [self._source_names.get(index, f"<{index}>") for index in ids]
        with self._lock:
            try:
                found = self._tokenizer.convert_ids_to_tokens(list(ids))
            except (IndexError, KeyError):  # a model may have more rows than the vocabulary
                found = [None] * len(ids)
        return [name if name else f"<{index}>" for index, name in zip(ids, found, strict=True)]

    def _piece(self, index: int, name: str, starts: bool | None) -> str:
        if index == self.unknown_id:
            return rewritten(name, self.style, starts=starts) if self.style == "wordpiece" else name
        if index in self.special_ids or index in self._added:
            return name.replace(" ", "\u2581")
        return rewritten(name, self.style, starts=starts)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, without special tokens."""
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
        copies = Path(copied)
        names = sorted(each.name for each in folder.iterdir() if each.suffix in SUFFIXES)
        for name in names:
            if name in (CONFIG, GENERATION, "adapter_config.json") or name.endswith(INDEX):
                continue
            if name == TOKENIZER_CONFIG:
                settings = _settings(folder / name)
                (copies / name).write_text(json.dumps(settings), encoding="utf-8")
            else:
                (copies / name).write_bytes(read_small(folder / name))
        if not any(copies.iterdir()):
            raise CheckpointError(f"{folder}: the tokenizer's files are missing")
        (copies / CONFIG).write_text(json.dumps(dict(values)), encoding="utf-8")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                copied, config=config, local_files_only=True, trust_remote_code=False
            )
        except BaseException as error:
            # A damaged file may make the library's Rust part panic, which is no Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            reason = " ".join(str(error).replace(copied, ".").split())[:300]
            raise CheckpointError(f"{folder}: the tokenizer cannot be read ({reason})") from None
    n_pieces = int(tokenizer.vocab_size)
    if n_pieces > sizes[0]:
        raise CheckpointError(
            f"{folder}: the tokenizer has {n_pieces:,} pieces, "
            f"but the model's vocabulary has {sizes[0]:,}"
        )
    return HubTokenizer(tokenizer, sizes, special)


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
