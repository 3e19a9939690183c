"""Generation settings of a model of the `transformers` library, and calls of its `generate`."""

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

#: Bounds of the numbers that models may set for the library's search. `int` bounds mean integers.
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
    """Generation settings of a model or of one call."""

    start: int | None  # the decoder's first input; None for a model without an encoder
    eos: tuple[int, ...]  # tokens that end a text
    pad: int | None  # padding token, if any
    forced_first: int | None  # first generated token, or None if the model chooses it
    decoding: Decoding  # `alpha` is the library's `length_penalty`: scores are log P / |Y|^alpha
    rules: Mapping[str, Any] = field(default_factory=dict)  # other search settings

    @property
    def special(self) -> tuple[int, ...]:
        """Tokens that are not text."""
        tokens = {*self.eos, self.pad, self.start}
        return tuple(token for token in tokens if token is not None)


def read_generation(
    path: Path, values: Mapping[str, Any], vocab_size: int, *, starts: bool
) -> Generation:
    """Read and check the generation settings.

    `transformer.models.huggingface.files.unused_settings` lists the settings without effect here.

    Args:
        path: file to name in errors.
        values: see `transformer.models.huggingface.files.generation_values`.
        vocab_size: upper limit of token ids.
        starts: True if the decoder needs a first token, as in an encoder-decoder.
    """

    def checked(name: str, ids: Any) -> list[int]:
        # Older files write -1 for no token.
        tokens = [token for token in (ids if isinstance(ids, list) else [ids]) if token != -1]
        if not starts and name in ("eos_token_id", "pad_token_id"):
            # GPT-2's defaults, which a smaller vocabulary lacks and never writes.
            tokens = [token for token in tokens if type(token) is not int or token < vocab_size]
        for token in tokens:
            if type(token) is not int or not 0 <= token < vocab_size:
                raise CheckpointError(
                    f"{path}: {name}={token!r} is not a token from 0 to {vocab_size - 1}"
                )
        if len(tokens) > MAX_BANNED:
            raise CheckpointError(
                f"{path}: {name} has {len(tokens):,} tokens; at most {MAX_BANNED:,}"
            )
        return tokens

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
    start = None
    if starts:
        first = token("decoder_start_token_id")
        start = token("bos_token_id") if first is None else first
        if start is None:
            raise CheckpointError(
                f"{path}: decoder_start_token_id is missing, and bos_token_id too"
            )
    words = values.get("bad_words_ids") or []
    if not isinstance(words, list) or len(words) > MAX_BANNED:
        raise CheckpointError(
            f"{path}: bad_words_ids is not a list of at most {MAX_BANNED:,} words"
        )
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


def generate(
    model: Any,
    name: str,
    generation: Generation,
    ids: Sequence[int],
    new_tokens: int,
    progress: Report | None,
    n_layers: int,
) -> tuple[int, ...]:
    """Return the ids that the library's beam search generates, including a final `</s>`.

    Args:
        ids: [S], the encoder's input, or the beginning of the text.
        new_tokens: maximum number of new tokens.
        progress: called with (step, last step); may raise to stop.
        n_layers: decoder depth.
    """
    transformers = library(Path(name))
    rows = torch.tensor([ids], device=model.device)  # [1, S]
    n_prompt = 1 if generation.start is not None else len(ids)
    decoding = generation.decoding
    stops: list[BaseException] = []

    def step(written: Tensor, _: Any, **__: Any) -> Tensor:
        try:
            if progress is not None:
                progress(written.shape[1] - n_prompt, new_tokens)
        except BaseException as stop:
            stops.append(stop)
            raise
        return torch.zeros(written.shape[0], dtype=torch.bool, device=written.device)

    settings = transformers.GenerationConfig(
        **generation.rules, max_new_tokens=new_tokens, num_beams=decoding.beam_size,
        length_penalty=decoding.alpha if decoding.beam_size > 1 else 1.0,
        early_stopping=decoding.early_stopping, do_sample=False, use_cache=True,
        num_return_sequences=1, decoder_start_token_id=generation.start,
        forced_bos_token_id=generation.forced_first, pad_token_id=generation.pad,
        eos_token_id=list(generation.eos) or None,
    )  # fmt: skip
    extra: dict[str, Any] = {}
    if n_layers > getattr(model.config, "num_hidden_layers", n_layers):
        # The library's cache is as deep as the encoder, but T5's decoder may be deeper.
        caches = (transformers.DynamicCache(), transformers.DynamicCache())
        extra["past_key_values"] = transformers.EncoderDecoderCache(*caches)
    try:
        written = model.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            generation_config=settings,
            stopping_criteria=transformers.StoppingCriteriaList([step]),
            **extra,
        )[0, n_prompt:].tolist()
    except Exception as error:
        if error in stops:
            raise
        raise CheckpointError(f"{name}: the model cannot generate ({one_line(error)})") from None
    # After an end, the rest is padding.
    end = next((at for at, token in enumerate(written) if token in generation.eos), len(written))
    return tuple(written[: end + 1])
