"""Generation settings of a model of the `transformers` library, and calls of its `generate`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.files.safe import one_line
from transformer.models.huggingface.files import library
from transformer.models.importers import settings as foreign
from transformer.search.inputs import checked_number, checked_whole
from transformer.search.request import Decoding
from transformer.types import CheckpointError, InputError, Report


@dataclass(frozen=True)
class Generation:
    """Generation settings of a model or of one call."""

    start: int | None  # the decoder's first input; None for a model without an encoder
    eos: tuple[int, ...]  # tokens that end a text
    pad: int | None  # padding token, if any
    forced_first: int | None  # first generated token, or None if the model chooses it
    decoding: Decoding  # `alpha` is the library's `length_penalty`: scores are log P / |Y|^alpha
    rules: Mapping[str, Any] = field(default_factory=dict)  # other search settings
    unused: tuple[str, ...] = ()  # settings not followed, as `name=value`

    @property
    def special(self) -> tuple[int, ...]:
        """Tokens that are not text."""
        return tuple(token for token in {*self.eos, self.pad, self.start} if token is not None)


def read_generation(settings: foreign.Settings, vocab_size: int, *, starts: bool) -> Generation:
    """Read the generation settings; those that are bad or never followed are listed in `unused`.

    Args:
        settings: see `transformer.models.huggingface.files.generation_settings`.
        vocab_size: upper limit of token ids.
        starts: True if the decoder needs a first token, as in an encoder-decoder.
    """

    def ids(value: Any) -> list[int]:
        # Older files write -1 for no token.
        given = [token for token in (value if isinstance(value, list) else [value]) if token != -1]
        if len(given) > foreign.MAX_BANNED:
            raise InputError(f"{len(given):,} tokens; at most {foreign.MAX_BANNED:,} are allowed")
        return [checked_whole("token", token, vocab_size - 1, least=0) for token in given]

    def within(value: Any) -> list[int]:
        return ids(foreign.inside(value, vocab_size))

    def words(value: Any) -> list[list[int]]:
        if not isinstance(value, list) or len(value) > foreign.MAX_BANNED:
            raise InputError(f"not a list of at most {foreign.MAX_BANNED:,} words")
        return [word for word in map(ids, value) if word]

    def token(name: str, read: Callable[[Any], list[int]] = ids) -> int | None:
        return next(iter(settings.followed(name, read, ())), None)

    def number(name: str, low: float, high: float) -> float | None:
        check: Callable[..., float] = checked_whole if isinstance(low, int) else checked_number
        return settings.followed(name, lambda value: check(name, value, high, least=low), None)

    # GPT-2's defaults, which a smaller vocabulary lacks and never writes.
    ends = ids if starts else within
    eos, pad = settings.followed("eos_token_id", ends, ()), token("pad_token_id", ends)
    first = token("decoder_start_token_id")
    first = token("bos_token_id") if first is None else first
    banned = settings.followed("bad_words_ids", words, ())
    flag = settings.followed("renormalize_logits", foreign.checked_flag, False)
    rules: dict[str, Any] = {
        # The library ignores a ban of an end alone, but refuses a list of nothing else.
        "bad_words_ids": [word for word in banned if word not in [[end] for end in eos]] or None,
        "renormalize_logits": flag or None,
    }
    rules |= {name: number(name, *bounds) for name, bounds in foreign.NUMBERS.items()}
    # The library ignores ids beyond the vocabulary, except a forced one.
    reads = {name: ids if name == "forced_eos_token_id" else within for name in foreign.TOKENS}
    rules |= {name: settings.followed(name, read, ()) or None for name, read in reads.items()}
    return Generation(
        start=first if starts else None,
        eos=tuple(eos),
        pad=pad if pad is not None else next(iter(eos), None),
        forced_first=token("forced_bos_token_id"),
        decoding=foreign.library_decoding(settings),
        rules={name: value for name, value in rules.items() if value is not None},
        unused=settings.unused(foreign.UNUSED),
    )


@dataclass(frozen=True, eq=False)
class Generated:
    """Generated tokens, and the library's processors of scores."""

    ids: tuple[int, ...]  # a final `</s>` included
    processors: Any  # the library's `LogitsProcessorList`
    greedy: bool

    def log_probs(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the log-probabilities of the generated tokens as the search counts them, [n].

        Beam search processes the model's log-probabilities, so that a forced token costs nothing
        and a banned one leaves the others unchanged. Greedy search processes logits; the
        log-probabilities are those of the processed logits, normalised.

        Args:
            logits: [n, V], the model's, unprocessed.
            ids: all decoder inputs up to the last generated token.
        """
        first, log_probs = len(ids) - len(self.ids), []
        for t, (row, token) in enumerate(zip(logits[:, None], self.ids, strict=True)):
            before = torch.tensor([ids[: first + t]], device=logits.device)
            scores = self.processors(before, row if self.greedy else row.log_softmax(-1))[0]
            scores = scores.log_softmax(-1) if self.greedy else scores
            # A search without a choice takes a banned token; the model's own value is finite.
            allowed = scores[token].isfinite()
            log_probs.append(scores[token] if allowed else row[0].log_softmax(-1)[token])
        return torch.stack(log_probs)


def generate(
    model: Any,
    name: str,
    generation: Generation,
    ids: Sequence[int],
    new_tokens: int,
    progress: Report | None,
    n_layers: int,
) -> Generated:
    """Run the library's beam search.

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
    inputs: dict[str, Any] = {
        "inputs": rows, "attention_mask": torch.ones_like(rows), "generation_config": settings,
    }  # fmt: skip
    try:
        written = model.generate(
            **inputs, stopping_criteria=transformers.StoppingCriteriaList([step]), **extra
        )[0, n_prompt:].tolist()
        # In place of a search, a function that returns the processors that a search is given.
        processors = model.generate(**inputs, custom_generate=_processors)
    except Exception as error:
        if error in stops:
            raise
        raise CheckpointError(f"{name}: the model cannot generate ({one_line(error)})") from None
    # After an end, the rest is padding.
    end = next((at for at, token in enumerate(written) if token in generation.eos), len(written))
    return Generated(tuple(written[: end + 1]), processors, decoding.beam_size == 1)


def _processors(_: Any, __: Any, logits_processor: Any, **rest: Any) -> Any:
    return logits_processor
