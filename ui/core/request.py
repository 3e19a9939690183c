"""The request: everything that a trace depends on, as one frozen record and cache key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from transformer.catalogue import ModelRef
from transformer.search.sampling import Sampling


@dataclass(frozen=True)
class Request:
    """One sentence for one model, and how to decode it.

    Attributes:
        model: where it is stored, with the fingerprint of its files.
        device: where it runs.
        sentence: as the model gets it, with its language tag if it has one.
        beam_size, alpha: settings of the search; defaults if they have no effect.
        prefix: token ids that the translation begins with.
        target: a whole translation to follow (teacher forcing), as text or as token ids.
        sampling: how tokens are drawn, None for the most probable ones.
        src_lang, tgt_lang: language codes for a model that takes them, else None.
    """

    model: ModelRef
    device: str
    sentence: str
    beam_size: int
    alpha: float
    prefix: tuple[int, ...] = ()
    target: str | tuple[int, ...] | None = None
    sampling: Sampling | None = None
    src_lang: str | None = None
    tgt_lang: str | None = None

    @cached_property
    def name(self) -> str:
        """A short name of the trace, which components include in their reports."""
        return hashlib.sha256(repr(self).encode("utf-8", "replace")).hexdigest()[:16]

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Tracer.trace`; those at None are left out."""
        arguments: dict[str, Any] = {}
        if self.target is not None:
            whole = self.target
            arguments["target"] = whole if isinstance(whole, str) else list(whole)
        elif self.prefix:
            arguments["prefix"] = list(self.prefix)
        arguments |= {"beam_size": self.beam_size, "alpha": self.alpha}
        for name in ("sampling", "src_lang", "tgt_lang"):
            if getattr(self, name) is not None:
                arguments[name] = getattr(self, name)
        return arguments
