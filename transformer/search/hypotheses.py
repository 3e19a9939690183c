"""Partial translations during a search, and their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transformer.search.records import Candidate, Compact, Fate, Hypothesis, SearchStep
from transformer.search.scoring import Continuations

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
    here, nothing = slice(rows.start, rows.stop), np.zeros((rows.stop, 0, 0, 0), np.float32)
    arrays: dict[str, Any] = {
        name: getattr(scored, name)[here].copy() for name in ("top_ids", "top_log_probs", "entropy")
    }
    for name, n_keys in (("decoder_self", None), ("cross", n_source)):
        maps = getattr(scored, name)
        arrays[name] = (nothing if maps is None else maps)[here, ..., :n_keys].copy()
    if scored.drawn is not None:
        allowed, tops = [each.allowed for each in scored.drawn[here]], arrays["top_ids"]
        arrays["allowed"] = np.array(list(map(np.isin, tops, allowed)))
        arrays["n_allowed"] = np.array(list(map(len, allowed)), dtype=np.int64)
    for array in arrays.values():
        array.setflags(write=False)
    return SearchStep(Compact(Candidate, candidates), **arrays)


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
