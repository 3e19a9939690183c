"""Parse sentences with a model that translates them into their trees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformer.checkpoint.folder import load_checkpoint
from transformer.device import resolve_device
from transformer.errors import CheckpointError, InputError
from transformer.parsing.reading import Parse, parsed
from transformer.search.decoding import Decoding
from transformer.search.request import Progress
from transformer.translator import Translator
from transformer.trees.symbols import CLOSE

#: Section 6.3: "a beam size of 21 and alpha = 0.3", at most the source length + 300.
PAPER_PARSING = Decoding(21, 0.3)
EXTRA_LENGTH = 300


def is_parser(translator: Translator) -> bool:
    """Whether a model writes trees: its vocabulary has their symbols."""
    return f"▁{CLOSE}" in translator.tokenizer.target.pieces


def load_parser(path: str | Path, device: str = "auto", *, free: bool = False) -> Translator:
    """Read a checkpoint that parses.

    Args: free: let it write anything, not only trees of the sentence.

    Raises: `CheckpointError`, and `InputError` for the device.
    """
    resolve_device(device)
    checkpoint = load_checkpoint(path)
    translator = Translator(
        checkpoint.model,
        checkpoint.tokenizer,
        device=device,
        name=checkpoint.name,
        path=checkpoint.path,
        decoding=PAPER_PARSING,
        extra_length=EXTRA_LENGTH,
        follow_grammar=not free,
    )
    if not is_parser(translator):
        raise CheckpointError(f"{path}: translates, but does not write trees")
    return translator


def source_text(words: Sequence[str]) -> str:
    """Return the text that the encoder reads. Raises `InputError` for a word with a space."""
    for word in words:
        if not word or any(map(str.isspace, word)):
            raise InputError(f"the word {word!r} is empty or has a space in it")
    return " ".join(words)


def parse(
    translator: Translator,
    sentences: Sequence[Sequence[str]],
    beam_size: int | None = None,
    alpha: float | None = None,
    *,
    on_parsed: Progress | None = None,
    max_length: int | None = None,
) -> list[Parse]:
    """Parse sentences.

    Args:
        sentences: the words of each, as the Treebank splits them (see `split_words`).
        beam_size, alpha, max_length: see `Translator.translate`.
        on_parsed: called with (sentences done, sentences in all) after each batch.

    Returns: one parse per sentence, in order.

    Raises: `InputError` for a sentence without words or of too many tokens (counted from 1).
    """
    for number, words in enumerate(sentences, 1):
        if not words:
            raise InputError(f"sentence {number} has no words")
    found = translator.translate(
        [source_text(words) for words in sentences],
        beam_size,
        alpha,
        on_translated=on_parsed,
        max_length=max_length,
    )
    return [
        parsed(each.ids, words, translator.tokenizer, complete=each.complete)
        for each, words in zip(found, sentences, strict=True)
    ]
