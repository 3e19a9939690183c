"""The choices of the page "Inside a head", as one record."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.types import AttentionKind


@dataclass(frozen=True)
class HeadChoice:
    """One query in one head; layer, head and position from 0."""

    kind: AttentionKind
    layer: int
    head: int
    query: int
