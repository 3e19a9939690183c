"""The generation settings of a model of the `transformers` library, and its `generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.errors import CheckpointError, InputError
from transformer.files.safe import one_line
from transformer.models.huggingface.files import library
from transformer.search.decoding import Decoding, library_decoding
from transformer.types import Report

#: Maximum number of tokens that are never generated.
MAX_BANNED = 10_000

#: Numbers that models may set for the library's search, with bounds; `int` bounds mean integers.
NUMBERS: dict[str, tuple[float, float]] = {
    "min_length": (0, 10_000),
    "min_new_tokens": (0, 10_000),
    "no_repeat_ngram_size": (0, 1_000),
    "encoder_no_repeat_ngram_size": (0, 1_000),
    "repetition_penalty": (0.001, 1_000.0),
    "encoder_repetition_penalty": (0.001, 1_000.0),
}


@dataclass(frozen=True)
class Generation:
    """A model's own generation settings; tokens are ids of the vocabulary."""

    start: int | None  # the decoder's first input; None for a model without an encoder
    eos: tuple[int, ...]  # tokens that end a text
    pad: int | None  # padding, if there is any
    forced_first: int | None  # the first generated token, None if it is free
    decoding: Decoding  # of calls that leave it out
    #: further settings of the library's search by name
    rules: Mapping[str, Any] = field(default_factory=dict)

    @property
    def special(self) -> tuple[int, ...]:
        """Tokens that are not text."""
        every = {*self.eos, self.pad, self.start}
        return tuple(each for each in every if each is not None)


def read_generation(
    path: Path, values: Mapping[str, Any], vocab_size: int, *, starts: bool
) -> Generation:
    """Read and check the generation settings.

    `transformer.models.huggingface.files.unused_settings` lists those without effect here.

    Args:
        path: the file to name in errors.
        values: see `transformer.models.huggingface.files.generation_values`.
        vocab_size: ids are below this.
        starts: whether the decoder needs a first token, as in an encoder-decoder.
    """

    def checked(name: str, ids: Any) -> list[int]:
        # Older files write -1 for none.
        found = [each for each in (ids if isinstance(ids, list) else [ids]) if each != -1]
        if not starts and name in ("eos_token_id", "pad_token_id"):
            # GPT-2's defaults, which a smaller vocabulary lacks and never writes.
            found = [each for each in found if type(each) is not int or each < vocab_size]
        for each in found:
            if type(each) is not int or not 0 <= each < vocab_size:
                raise CheckpointError(
                    f"{path}: {name}={each!r} is not a token from 0 to {vocab_size - 1}"
                )
        if len(found) > MAX_BANNED:
            raise CheckpointError(
                f"{path}: {name} has {len(found):,} tokens; at most {MAX_BANNED:,}"
            )
        return found

    def tokens(name: str) -> list[int]:
        value = values.get(name)
        return [] if value is None else checked(name, value)

    def token(name: str) -> int | None:
        return next(iter(tokens(name)), None)

    def number(name: str, low: float, high: float) -> int | float | None:
        value = values.get(name)
        kinds = (int, type(None)) if isinstance(low, int) else (int, float, type(None))
        if type(value) not in kinds or not (value is None or low <= value <= high):
            raise CheckpointError(
                f"{path}: {name}={value!r:.40} is not a number from {low} to {high}"
            )
        return value if value is None or isinstance(low, int) else float(value)

    try:
        decoding = library_decoding(values)
    except InputError as error:
        raise CheckpointError(f"{path}: {error}") from None
    eos, pad = tokens("eos_token_id"), token("pad_token_id")
    start = token("decoder_start_token_id") if starts else None
    if starts and start is None:
        start = token("bos_token_id")
    if starts and start is None:
        raise CheckpointError(f"{path}: decoder_start_token_id is missing, and bos_token_id too")
    words = values.get("bad_words_ids") or []
    if not isinstance(words, list) or len(words) > MAX_BANNED:
        raise CheckpointError(f"{path}: bad_words_ids is no list of at most {MAX_BANNED:,} words")
    rules: dict[str, Any] = {name: number(name, *bounds) for name, bounds in NUMBERS.items()}
    rules |= {
        "renormalize_logits": values.get("renormalize_logits") is True or None,
        "bad_words_ids": [ids for word in words if (ids := checked("bad_words_ids", word))] or None,
        "suppress_tokens": tokens("suppress_tokens") or None,
        "begin_suppress_tokens": tokens("begin_suppress_tokens") or None,
        "forced_eos_token_id": (tokens("forced_eos_token_id") if starts else None) or None,
    }
    return Generation(
        start=start,
        eos=tuple(eos),
        pad=pad if pad is not None else next(iter(eos), None),
        forced_first=token("forced_bos_token_id") if starts else None,
        decoding=decoding,
        rules={name: value for name, value in rules.items() if value is not None},
    )


@dataclass(frozen=True)
class Search:
    """Settings of one call of the library's beam search."""

    beam_size: int  # 1 is greedy
    alpha: float  # the library's `length_penalty`: hypotheses are ranked by log P / |Y|^alpha
    progress: Report | None  # called with (step, longest step); may raise to stop


def generate(
    model: Any,
    name: str,
    generation: Generation,
    ids: Sequence[int],
    new_tokens: int,
    search: Search,
    n_layers: int,
) -> tuple[int, ...]:
    """Return the ids that the library's beam search generates, up to and with `</s>`.

    Args:
        ids: [S], the encoder's input, or the beginning of the text.
        new_tokens: maximum number of new tokens.
        n_layers: of the decoder.
    """
    transformers = library(Path(name))
    rows = torch.tensor([ids], device=model.device)  # [1, S]
    given = 1 if generation.start is not None else len(ids)
    stops: list[BaseException] = []

    def step(found: Tensor, _: Any, **__: Any) -> Tensor:
        try:
            if search.progress is not None:
                search.progress(found.shape[1] - given, new_tokens)
        except BaseException as stop:
            stops.append(stop)
            raise
        return torch.zeros(found.shape[0], dtype=torch.bool, device=found.device)

    settings = transformers.GenerationConfig(
        **generation.rules,
        early_stopping=generation.decoding.early_stopping,
        max_new_tokens=new_tokens,
        num_beams=search.beam_size,
        length_penalty=search.alpha if search.beam_size > 1 else 1.0,
        do_sample=False,
        use_cache=True,
        num_return_sequences=1,
        decoder_start_token_id=generation.start,
        forced_bos_token_id=generation.forced_first,
        eos_token_id=list(generation.eos) or None,
        pad_token_id=generation.pad,
    )
    extra: dict[str, Any] = {}
    if n_layers > getattr(model.config, "num_hidden_layers", n_layers):
        # The library makes a decoder's cache as deep as the encoder, but T5's may be deeper.
        caches = (transformers.DynamicCache(), transformers.DynamicCache())
        extra["past_key_values"] = transformers.EncoderDecoderCache(*caches)
    try:
        found = model.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            generation_config=settings,
            stopping_criteria=transformers.StoppingCriteriaList([step]),
            **extra,
        )[0, given:].tolist()
    except Exception as error:
        if error in stops:
            raise
        raise CheckpointError(f"{name}: the model cannot generate ({one_line(error)})") from None
    ends = [at for at, each in enumerate(found) if each in generation.eos]
    # The rest is padding.
    return tuple(found[: ends[0] + 1] if ends else found)
