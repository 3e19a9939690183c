"""Options of a search, shared by all methods of `Translator` that search, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from transformer.search.beam import SearchSettings
from transformer.search.inputs import search_settings
from transformer.search.reader import Prefix, Reader
from transformer.search.rules import PAPER, BeamRule
from transformer.search.sampling import Sampling

Progress = Callable[[int, int], None]


class SearchOptions(TypedDict, total=False):
    """Optional keyword arguments.

    Attributes:
        max_length: longest translation in tokens, `</s>` included, at most the translator's
            `max_tokens`. None (the default) is the source length + the translator's
            `extra_length`, 50 as in the paper.
        prefix: the beginning of every translation, as text or token ids.
        sampling: draw tokens at random instead; needs a beam size of 1. Every sentence draws with
            the same seed, whatever else is in its batch.
        allow_unknown: let the model generate `<unk>`; False by default.
        rule: how the beam scores and when it stops, for comparison with other libraries.
        progress: called with (step, most steps) within each batch, step 0 while the source is
            read; may raise to stop.
    """

    max_length: int | None
    prefix: Prefix
    sampling: Sampling | None
    allow_unknown: bool
    rule: BeamRule
    progress: Progress | None


@dataclass(frozen=True)
class SearchRequest:
    """The checked settings of a search.

    Attributes:
        settings: of the search.  reader: checks lengths.
        forced: ids that translations begin with.
        max_length, progress: see `SearchOptions`.
    """

    settings: SearchSettings
    reader: Reader
    forced: list[int]
    max_length: int | None
    progress: Progress | None

    def limit(self, n_source: int) -> int:
        """Return the longest translation of a source of `n_source` tokens (`Reader.limit`)."""
        return self.reader.limit(n_source, self.max_length, self.forced)

    def encoder_progress(self, most_steps: int) -> Callable[[], None]:
        """Return the callback for the start of each encoder layer."""
        progress = self.progress
        return no_progress if progress is None else lambda: progress(0, most_steps)


def search_request(
    reader: Reader,
    beam_size: int,
    alpha: float,
    options: SearchOptions,
    *,
    top_k: int | None = None,
) -> SearchRequest:
    """Check the settings of a search.

    Args: top_k: alternatives to record a step; None records nothing.

    Raises: `InputError` for a bad value, `TypeError` for an option that does not exist.
    """
    unknown = options.keys() - SearchOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    settings = search_settings(
        reader.config,
        beam_size,
        alpha,
        allow_unknown=options.get("allow_unknown", False),
        top_k=top_k,
        sampling=options.get("sampling"),
        rule=options.get("rule", PAPER),
    )
    forced = reader.prefix(options.get("prefix"))
    return SearchRequest(
        settings, reader, forced, options.get("max_length"), options.get("progress")
    )


def no_progress() -> None:
    """No-op progress callback."""


def layer_progress(progress: Progress | None, n_layers: int) -> Callable[[], None]:
    """Return a callback that reports one more of `n_layers` layers as begun."""
    if progress is None:
        return no_progress
    begun = 0

    def begin() -> None:
        nonlocal begun
        begun += 1
        progress(begun, n_layers)

    return begin
