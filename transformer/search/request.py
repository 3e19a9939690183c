"""What a search may be told beside its beam, the same for every way to ask `Translator` for one."""

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
    """Keyword arguments, all of which may be left out.

    Attributes:
        max_length: longest translation in tokens, `</s>` included; None, and the default, is the
            paper's source length + 50, and never more than the translator's `max_tokens`.
        prefix: what every translation has to begin with, as text or token ids.
        sampling: draw tokens at random in place of the best; the beam size has to be 1. Every
            sentence draws with the same seed, whatever else is in its batch.
        allow_unknown: let the model generate `<unk>`; False by default.
        rule: how the beam scores and when it stops; for comparison with other libraries.
        progress: called with (step, longest step) within each batch, 0 while the source is read;
            may raise to stop.
    """

    max_length: int | None
    prefix: Prefix
    sampling: Sampling | None
    allow_unknown: bool
    rule: BeamRule
    progress: Progress | None


@dataclass(frozen=True)
class Asked:
    """A search as it was asked for, checked.

    Attributes:
        settings: of the search.  reader: what checked them.
        forced: ids that translations begin with.
        max_length, progress: see `SearchOptions`.
    """

    settings: SearchSettings
    reader: Reader
    forced: list[int]
    max_length: int | None
    progress: Progress | None

    def limit(self, n_source: int) -> int:
        """Longest translation of a source of so many tokens, see `Reader.limit`."""
        return self.reader.limit(n_source, self.max_length, self.forced)

    def reading(self, longest: int) -> Callable[[], None]:
        """What is called before each layer that reads the source."""
        progress = self.progress
        return nothing if progress is None else lambda: progress(0, longest)


def asked(
    reader: Reader,
    beam_size: int,
    alpha: float,
    options: SearchOptions,
    *,
    top_k: int | None = None,
) -> Asked:
    """Check what was asked for.

    Args: top_k: alternatives to record; None records nothing.

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
    return Asked(settings, reader, forced, options.get("max_length"), options.get("progress"))


def nothing() -> None:
    """What is called where nobody wants to know how far something is."""


def counted(progress: Progress | None, most: int) -> Callable[[], None]:
    """A function that says with each call that one more of `most` parts is begun."""
    if progress is None:
        return nothing
    begun = 0

    def begin() -> None:
        nonlocal begun
        begun += 1
        progress(begun, most)

    return begin
