"""A file of arrays as a `Tracer` of one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.arrays.maps import MAX_TOKENS
from transformer.arrays.trace_file import load_arrays
from transformer.errors import InputError
from transformer.trace.records import Trace
from transformer.trace.tracer import Ability
from transformer.types import ATTENTION_KINDS, AttentionKind

#: Why a file cannot do what a model can, one sentence each.
LACKS: dict[Ability, str] = {
    "search": "This file holds what one pass saw, not a search: which translations were compared "
    "is not in it.",
    "steering": "This file holds one sentence as it was recorded; there is no model here that "
    "could go on in another way.",
    "internals": "This file holds attention weights only; the queries, keys and values that made "
    "them stayed in the model.",
    "vocabulary": "This file holds the pieces of one sentence, not the tokenizer and the "
    "embeddings behind them.",
    "any_sentence": "This file holds one sentence; there is no model here to read another.",
}


@dataclass(frozen=True, eq=False)
class ArchivedTrace:
    """One sentence that was recorded elsewhere.

    Attributes:
        name: the file's.
        record: what it holds.
        device: arrays need none; this is the CPU.
        max_tokens: as many as any archive may hold.
    """

    name: str
    record: Trace
    device: str = "cpu"
    max_tokens: int = MAX_TOKENS

    @classmethod
    def load(cls, path: str | Path) -> ArchivedTrace:
        """Read an .npz file. Raises `CheckpointError` like
        `transformer.arrays.trace_file.load_arrays`.
        """
        return cls(Path(path).name, load_arrays(path))

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Which kinds of maps the file holds."""
        return tuple(kind for kind in ATTENTION_KINDS if self.record.attention(kind).size)

    @property
    def sentence(self) -> str:
        """The one sentence."""
        return self.record.source

    def lacks(self, ability: Ability) -> str | None:
        """Why the file cannot do this; it can do none of what a model can."""
        return LACKS[ability]

    def trace(self, sentence: str, target: str | None = None, **options: Any) -> Trace:
        """The record. Raises `InputError` for another sentence than the file's, or a target."""
        if sentence != self.sentence:
            raise InputError(f"{self.name} holds one sentence, which is another one than this")
        if target is not None:
            raise InputError(f"{self.name} holds one sentence; no other translation can be given")
        return self.record
