"""Partial translations during a search, and their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from transformer.search.compact import Compact
from transformer.search.records import Candidate, Fate, Hypothesis, SearchStep
from transformer.search.rules import length_penalty
from transformer.search.sampling import Sampling, draw
from transformer.types import Floats, Ints

__all__ = [
    "Continuations", "Draws", "Partial", "length_penalty", "recorded_hypothesis", "recorded_step",
]  # fmt: skip


#: The length penalty of a number of tokens, `</s>` included.
Penalty = Callable[[int], float]


#: Names a token, given its id and the one before it (-1 at the beginning).
Name = Callable[[int, int], str]


@dataclass(frozen=True, eq=False)
class Partial:
    """The last token of a partial translation, and the node that it continues.

    `row` is the row, within its sentence, of this node's prefix when the token was chosen.
    """

    parent: Partial | None
    token: int
    log_prob: float
    total: float
    row: int
    length: int

    def score(self, penalty: Penalty) -> float:
        """Return log P / lp, by which hypotheses are compared."""
        return self.total / penalty(self.length)

    def path(self) -> list[Partial]:
        """Return the nodes from the first generated token to this one."""
        nodes = []
        node: Partial | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass(frozen=True, eq=False)
class Draws:
    """The tokens sampled at a step.

    Attributes:
        tokens: [R].  log_probs: [R], under the model's own distribution.
        allowed: [R][n] ids that could have been drawn, most probable first.
    """

    tokens: list[int]
    log_probs: list[float]
    allowed: list[Ints]

    @classmethod
    def of(
        cls, log_probs: Tensor, sampling: Sampling, step: int, suppressed: Sequence[int]
    ) -> Draws:
        """Sample a token for each row of `log_probs` [R, V]."""
        rows = log_probs.float().cpu().numpy()
        drawn = [draw(row, sampling, step, suppressed) for row in rows]
        tokens = [each.token for each in drawn]
        own = [float(row[token]) for row, token in zip(rows, tokens, strict=True)]
        return cls(tokens, own, [each.allowed for each in drawn])


@dataclass(frozen=True, eq=False)
class Continuations:
    """The best next tokens of every row, on the CPU. K' = beam_size + suppressed, at most V.

    Attributes:
        ids, log_probs: [R][K'].  forced: [R], log-probability of the prefix's token.
        top_ids, top_log_probs: [R, K].  entropy: [R].  decoder_self: [R, Ld, H, t].
        cross: [R, Ld, H, S].  The last five are None unless recording.
        drawn: the sampled tokens, None unless sampling.
    """

    ids: list[list[int]]
    log_probs: list[list[float]]
    forced: list[float]
    top_ids: Ints | None = None
    top_log_probs: Floats | None = None
    entropy: Floats | None = None
    decoder_self: Floats | None = None
    cross: Floats | None = None
    drawn: Draws | None = None


def recorded_step(
    nodes: Sequence[Partial],
    fates: Mapping[Partial, Fate],
    places: Mapping[Partial, int],
    rows: range,
    scored: Continuations,
    penalty: Penalty,
    n_source: int | None,
    piece: Name,
) -> SearchStep:
    """Record one step of one sentence's search.

    Args:
        nodes: the continuations considered, best first.
        fates: what became of each; if absent, it was dropped.
        places: the next row of those kept.
        rows: the sentence's rows in `scored`.
        penalty: the length penalty.
        n_source: source tokens without padding; None is all.
    """
    candidates = (
        Candidate(
            parent=node.row,
            token_id=node.token,
            token=piece(node.token, -1 if node.parent is None else node.parent.token),
            log_prob=node.log_prob,
            total=node.total,
            score=node.score(penalty),
            fate=fates.get(node, "dropped"),
            row=places.get(node, -1),
        )
        for node in nodes
    )
    assert scored.top_ids is not None
    assert scored.top_log_probs is not None and scored.entropy is not None
    here = slice(rows.start, rows.stop)
    empty = np.zeros((len(rows), 0, 0, 0), np.float32)
    own = empty if scored.decoder_self is None else scored.decoder_self[here]
    cross = empty if scored.cross is None else scored.cross[here, ..., :n_source]
    step = SearchStep(
        candidates=Compact(Candidate, candidates),
        top_ids=scored.top_ids[here].copy(),
        top_log_probs=scored.top_log_probs[here].copy(),
        entropy=scored.entropy[here].copy(),
        decoder_self=own.copy(),
        cross=cross.copy(),
        **_cut_off(scored, rows),
    )
    for array in (step.top_ids, step.top_log_probs, step.entropy, step.decoder_self, step.cross):
        array.setflags(write=False)
    return step


def _cut_off(scored: Continuations, rows: range) -> dict[str, Any]:
    """Return which of the most probable tokens could be sampled, and how many of all could."""
    if scored.drawn is None or scored.top_ids is None:
        return {}
    each = scored.drawn.allowed[rows.start : rows.stop]
    tops = scored.top_ids[rows.start : rows.stop]
    allowed = np.array([np.isin(top, ids) for top, ids in zip(tops, each, strict=True)])
    n_allowed = np.array([len(ids) for ids in each], dtype=np.int64)
    for array in (allowed, n_allowed):
        array.setflags(write=False)
    return {"allowed": allowed, "n_allowed": n_allowed}


def recorded_hypothesis(node: Partial, eos_id: int, penalty: Penalty, piece: Name) -> Hypothesis:
    """Record the hypothesis that ends in `node`."""
    path = node.path()
    ids = tuple(each.token for each in path)
    return Hypothesis(
        ids=ids,
        tokens=tuple(map(piece, ids, (-1, *ids))),
        total=node.total,
        score=node.score(penalty),
        rows=tuple(each.row for each in path),
        complete=bool(ids) and ids[-1] == eos_id,
        log_probs=tuple(each.log_prob for each in path),
    )
