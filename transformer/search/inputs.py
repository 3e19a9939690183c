"""Checks of arguments; each fails with one line: what, which value, what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from transformer.config import ModelConfig
from transformer.errors import InputError
from transformer.search.beam import SearchSettings
from transformer.search.rules import PAPER, BeamRule
from transformer.search.sampling import Sampling

MAX_BEAM, MAX_TOP_K, MAX_ALPHA = 64, 100, 10.0


def checked_whole(name: str, value: object, most: int | None = None) -> int:
    """Return `value` if it is a whole number from 1 (to `most`), else raise `InputError`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value) < 1 or (most is not None and int(value) > most):  # type: ignore[call-overload]
        allowed = "of at least 1" if most is None else f"from 1 to {most}"
        raise InputError(f"{name} {value!r} is not a whole number {allowed}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def checked_beam(value: object) -> int:
    """Return `value` if it is a valid beam size, else raise `InputError`."""
    return checked_whole("beam size", value, MAX_BEAM)


def checked_alpha(value: object) -> float:
    """Return `value` if it is a valid exponent of the length penalty, else raise `InputError`."""
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and 0 <= value <= MAX_ALPHA):  # type: ignore[arg-type, operator]
        raise InputError(f"alpha {value!r} is not a number from 0 to {MAX_ALPHA:g}")
    return float(value)  # type: ignore[arg-type]


def search_settings(
    config: ModelConfig,
    beam_size: int,
    alpha: float,
    *,
    allow_unknown: bool,
    top_k: int | None = None,
    sampling: Sampling | None = None,
    rule: BeamRule = PAPER,
) -> SearchSettings:
    """Return checked settings for a search, which records if `top_k` is given.

    Padding, `<s>` and the config's suppressed ids are never generated, `<unk>` only if allowed.
    Without a record, a search may stop once the best hypothesis is certain.
    """
    size, exponent = checked_beam(beam_size), checked_alpha(alpha)
    if sampling is not None and not isinstance(sampling, Sampling):
        raise InputError(f"sampling must be a Sampling, not {type(sampling).__name__}")
    if sampling is not None and size != 1:
        raise InputError(f"beam size {size} cannot be sampled with; allowed is 1")
    never = {config.pad_id, config.bos_id, *config.suppressed_ids} - {config.eos_id}
    suppressed = never if allow_unknown else never | {config.unk_id}
    return SearchSettings(
        beam_size=size,
        alpha=exponent,
        rule=rule,
        bos_id=config.bos_id,
        eos_id=config.eos_id,
        suppressed=tuple(sorted(suppressed)),
        excluded=tuple(sorted(never)) if config.renormalise else (),
        forced_eos=config.forced_eos,
        n_best=1 if top_k is None and rule == PAPER else None,
        record=top_k is not None,
        top_k=1 if top_k is None else checked_whole("top_k", top_k, MAX_TOP_K),
        sampling=sampling,
    )


def checked_sampling(temperature: float, top_k: int, top_p: float, seed: int) -> Sampling:
    """Return a `Sampling`, with its `ValueError` as an `InputError`."""
    try:
        return Sampling(temperature, top_k, top_p, seed)
    except ValueError as error:
        raise InputError(str(error)) from None


def checked_ids(
    what: str, ids: Sequence[int], config: ModelConfig, size: int | None = None
) -> list[int]:
    """Return the token ids if a model may read them, else raise `InputError`.

    Args:
        what: names them in the message.
        size: of the vocabulary; None is the target's.
    """
    size = config.target_vocab_size if size is None else size
    banned = (config.pad_id, config.bos_id, config.eos_id)
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int | np.integer):
            raise InputError(f"{what} token {token!r} is not a whole number")
        if not 0 <= token < size or token in banned:
            raise InputError(
                f"{what} token {token} cannot be used; allowed are 0 to {size - 1} "
                f"without {', '.join(map(str, banned))}"
            )
    return [int(token) for token in ids]


def check_length(ids: Sequence[int], most: int) -> None:
    """Raise `InputError` if these ids and `</s>` are more than `most` tokens."""
    if len(ids) + 1 > most:
        raise InputError(
            f"the sentence has {len(ids) + 1:,} tokens (</s> included); at most {most} are allowed"
        )
