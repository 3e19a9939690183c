"""The search of one sentence as a tree (section 6.1), with the outcome of every hypothesis.

A `SearchRecord` lists the continuations compared at every step. Here they form a tree of `Node`s:
the root is `<s>`, the children of a node continue its prefix by one token, and the path from the
root to a node is a partial translation. Every node knows why it was kept, dropped, or ended.
`transformer.measures.finish` compares the finished ones.

Log-probabilities are in nats; steps and ranks count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from transformer.search.records import (
    Compact,
    Fate,
    PathAttention,
    SearchRecord,
    SearchStep,
    path_attention,
)
from transformer.search.rules import PAPER, BeamRule
from transformer.trace.records import Trace

#: Outcome of a node:
#: "continued": in the beam, and some continuation of it was kept or ended at the next step.
#: "exhausted": in the beam, but no continuation of it got into the next one.
#: "finished": ended in `</s>`.  "cut": in the beam when the length limit was reached.
#: "outranked": below the last of the beam at its step.
#: "stopped": good enough for the beam, but the search ended there, since it could not win.
#: "passed": a beam of one took another token (the best, one drawn, or one given).
Outcome = Literal[
    "continued", "exhausted", "finished", "cut", "outranked", "stopped", "passed"
]  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One token considered at one step, after the prefix that ends in its parent."""

    index: int  # index in `Tree.nodes`
    parent: int  # index of the node it continues, -1 for `<s>`
    step: int  # decoding step; the prefix up to and with this token has `step + 1` tokens
    rank: int  # among all candidates of the step, 0 the best
    # Row of its prefix at this step: the attention that predicted it is `steps[step].cross[row]`,
    # which it shares with its siblings.
    row: int
    token_id: int
    token: str
    log_prob: float  # its log-probability after its prefix
    total: float  # log-probability of the whole prefix with it
    score: float  # total / length penalty
    fate: Fate  # as recorded
    outcome: Outcome

    @property
    def length(self) -> int:
        """Number of tokens up to and including this one, as in the length penalty."""
        return self.step + 1


@dataclass(frozen=True, eq=False)
class Tree:
    """All candidates of one search."""

    nodes: Sequence[Node]  # by step, and by rank within a step
    steps: tuple[tuple[int, ...], ...]  # the indices of each step's nodes, best first
    # Last nodes of the translations compared, finished or cut, best score first; the first is the
    # translation. There may be more than the beam size.
    leaves: tuple[int, ...]
    beam_size: int
    alpha: float
    max_length: int
    n_forced: int = 0  # steps at which a given prefix left no choice
    sampled: bool = False  # whether tokens were drawn at random; the beam is then one
    rule: BeamRule = PAPER  # how hypotheses were scored

    def penalty(self, length: int) -> float:
        """Return the length penalty of a number of tokens."""
        return self.rule.penalty(length, self.alpha)

    def path(self, index: int) -> tuple[int, ...]:
        """Return the path from the first token to a node; empty for the root, -1."""
        path = []
        while index >= 0:
            path.append(index)
            index = self.nodes[index].parent
        return tuple(reversed(path))

    def prefix(self, index: int) -> tuple[Node, ...]:
        """Return the nodes of `path`."""
        return tuple(self.nodes[place] for place in self.path(index))

    def find(self, step: int, rank: int) -> Node | None:
        """Return the node of a rank at a step, or None."""
        if not 0 <= step < len(self.steps):
            return None
        return next((n for n in map(self.node, self.steps[step]) if n.rank == rank), None)

    def node(self, index: int) -> Node:
        """Return the node with this index."""
        return self.nodes[index]

    @cached_property
    def winner(self) -> tuple[int, ...]:
        """Path of the translation."""
        return self.path(self.leaves[0]) if self.leaves else ()

    @cached_property
    def alive(self) -> frozenset[int]:
        """Nodes at which hypotheses ended."""
        return frozenset(index for leaf in self.leaves for index in self.path(leaf))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Indices of each node's continuations, best first."""
        children: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            if node.parent >= 0:
                children[node.parent].append(node.index)
        return tuple(map(tuple, children))

    def best_leaf(self, index: int) -> int | None:
        """Return the best leaf with this node on its path, or None."""
        return next((leaf for leaf in self.leaves if index in self.path(leaf)), None)

    def last_in_beam(self, step: int) -> Node:
        """Return the last node of the beam at a step."""
        ranked = [self.nodes[index] for index in self.steps[step]]
        good = [place for place, node in enumerate(ranked) if node.fate != "dropped"]
        if self.beam_size > 1:  # the search ended before others took the free place
            good.append(min(self.beam_size, len(ranked)) - 1)
        return ranked[max(good)]


def beam_tree(trace: Trace) -> Tree:
    """Build the tree of a trace's search.

    A beam of one compares nothing: its runners-up are the next-token alternatives of the trace.

    Raises: `ValueError` if the trace has no record of a search.
    """
    record = trace.search
    if record is None:
        raise ValueError("this trace has no record of a search")
    rule = record.rule or PAPER
    nodes: list[Node] = []
    steps: list[tuple[int, ...]] = []
    held: dict[int, int] = {0: -1}  # live row at this step: its last node
    for t, step in enumerate(record.steps):
        candidates = list(_considered(step, t, held, record))
        if record.beam_size == 1:
            candidates = _with_runners_up(candidates, trace, t, rule.penalty(t + 1, record.alpha))
        first = len(nodes)
        nodes += [replace(node, index=first + place) for place, node in enumerate(candidates)]
        steps.append(tuple(range(first, len(nodes))))
        rows = {(made.parent, made.token_id): made.row for made in step.candidates}
        continued = ((rows.get((node.row, node.token_id), -1), node) for node in nodes[first:])
        held = {row: node.index for row, node in continued if row >= 0}
    # Continuations that the search stopped at were good enough, so they count too.
    followed = {node.parent for node in nodes if node.outcome not in ("outranked", "passed")}
    nodes = [
        replace(node, outcome="exhausted")
        if node.outcome == "continued" and node.index not in followed
        else node
        for node in nodes
    ]
    ended = [node for node in nodes if node.outcome == "finished"]
    if not all(hypothesis.complete or hypothesis.forced_end for hypothesis in record.hypotheses):
        cut = [node for node in nodes if node.outcome == "cut"]
        # Without any, nothing could follow.
        ended += cut or [
            node for node in nodes
            if node.outcome == "exhausted" and node.step == nodes[-1].step
        ]  # fmt: skip
    leaves = tuple(node.index for node in sorted(ended, key=lambda node: -node.score))
    return Tree(
        Compact(Node, nodes), tuple(steps), leaves, record.beam_size,
        record.alpha, record.max_length, record.n_forced, record.sampling is not None, rule,
    )  # fmt: skip


def _considered(
    step: SearchStep, t: int, held: dict[int, int], record: SearchRecord
) -> Iterator[Node]:
    """Yield the candidates of a step as nodes without index, best first."""
    for rank, option in enumerate(step.candidates):
        if option.fate == "dropped" and not math.isfinite(option.total):
            continue  # impossible, and not forced either
        outcome: Outcome = "continued"
        if option.fate == "finished":
            outcome = "finished"
        elif option.fate == "dropped":
            outcome = "outranked" if rank >= record.beam_size else "stopped"
        elif option.row < 0:
            outcome = "cut"
        yield Node(
            -1, held[option.parent], t, rank, option.parent, option.token_id, option.token,
            option.log_prob, option.total, option.score, option.fate, outcome,
        )  # fmt: skip


def _with_runners_up(nodes: Sequence[Node], trace: Trace, t: int, penalty: float) -> list[Node]:
    """Rank the only node of a step among its alternative tokens, by probability."""
    if not nodes or t >= len(trace.top_tokens):
        return list(nodes)
    taken, every = nodes[0], [nodes[0]]
    tops = trace.top_ids[t].tolist(), trace.top_tokens[t], trace.top_log_probs[t].tolist()
    for token_id, token, log_prob in zip(*tops, strict=True):
        if token_id != taken.token_id and math.isfinite(log_prob):
            total = taken.total - taken.log_prob + log_prob
            every.append(replace(
                taken, token_id=token_id, token=token, log_prob=log_prob, total=total,
                score=total / penalty, fate="dropped", outcome="passed",
            ))  # fmt: skip
    every.sort(key=lambda node: -node.log_prob)
    return [replace(node, rank=rank) for rank, node in enumerate(every)]


def attention_along(record: SearchRecord, tree: Tree, index: int) -> PathAttention:
    """Return the attention that predicted the tokens of a node's path."""
    path = tree.prefix(index)
    if not path:
        raise ValueError(f"node {index} is not in the tree")
    return path_attention(record.steps, [node.row for node in path])


@dataclass(frozen=True)
class Comparison:
    """Two paths side by side."""

    a: tuple[Node, ...]  # their nodes
    b: tuple[Node, ...]
    shared: int  # length of their common prefix, in tokens

    @property
    def same(self) -> bool:
        """True if one path is a prefix of the other, or both are equal."""
        return self.shared == min(len(self.a), len(self.b))


def compare(tree: Tree, a: int, b: int) -> Comparison:
    """Compare two nodes' paths."""
    first, second = tree.prefix(a), tree.prefix(b)
    pairs = enumerate(zip(first, second, strict=False))
    shared = next((at for at, (one, other) in pairs if one.index != other.index), None)
    return Comparison(first, second, min(len(first), len(second)) if shared is None else shared)
