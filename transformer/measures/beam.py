"""Search tree of one sentence (section 6.1), with the outcome of every hypothesis.

A `SearchRecord` lists the continuations compared at every step. Here they form a tree of `Node`s:
the root is `<s>`, the children of a node extend its prefix by one token, and the path from the
root to a node is a partial translation. Each node records why it was kept, dropped, or ended.
`transformer.measures.finish` compares finished hypotheses.

Log-probabilities are in nats; steps and ranks count from 0.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from transformer.search import records
from transformer.search.rules import PAPER, BeamRule
from transformer.trace.records import Trace
from transformer.types import InputError

#: Node outcomes:
#: "continued": in the beam, and a continuation was kept or finished at the next step.
#: "exhausted": in the beam, but no continuation entered the next beam.
#: "finished": ended in `</s>`.  "cut": in the beam when the length limit was reached.
#: "outranked": ranked below the last hypothesis in the beam.
#: "stopped": ranked high enough for the beam, but the search ended because it could not win.
#: "passed": a beam of one took another token (the most probable, sampled, or forced token).
Outcome = Literal["continued", "exhausted", "finished", "cut", "outranked", "stopped", "passed"]


@dataclass(frozen=True)
class Node:
    """A candidate token at one step, following the prefix that ends in its parent."""

    index: int  # index in `Tree.nodes`
    parent: int  # index of the node before it, -1 for `<s>`
    step: int  # decoding step; the prefix including this token has `step + 1` tokens
    rank: int  # rank among all candidates at this step, 0 for the best
    # Row of its prefix at this step: `steps[step].cross[row]` is the attention that predicted it
    # and its siblings.
    row: int
    token_id: int
    token: str
    log_prob: float  # log-probability of the token after its prefix
    total: float  # log-probability of the prefix including the token
    score: float  # total / length penalty
    fate: records.Fate  # from the search record
    outcome: Outcome

    @property
    def length(self) -> int:
        """Number of tokens up to and including this one, as in the length penalty."""
        return self.step + 1


@dataclass(frozen=True, eq=False)
class Tree:
    """All candidates of one search."""

    nodes: Sequence[Node]  # ordered by step, then by rank
    steps: tuple[tuple[int, ...], ...]  # node indices at each step, best first
    # Last nodes of finished or cut hypotheses, best score first; the first is the translation.
    # There may be more than the beam size.
    leaves: tuple[int, ...]
    beam_size: int
    alpha: float
    max_length: int
    n_forced: int = 0  # steps forced by a prefix
    sampled: bool = False  # whether tokens were sampled; the beam size is then 1
    rule: BeamRule = PAPER  # scoring rule
    root: str = "<s>"  # token with which the model's decoder starts

    def path(self, index: int) -> tuple[int, ...]:
        """Return node indices from the first token to a node, or () for the root, -1."""
        path = []
        while index >= 0:
            path.append(index)
            index = self.nodes[index].parent
        return tuple(reversed(path))

    def prefix(self, index: int) -> tuple[Node, ...]:
        """Return the nodes on `path(index)`."""
        return tuple(self.nodes[place] for place in self.path(index))

    def find(self, step: int, rank: int) -> Node | None:
        """Return the node with this rank at a step, or None if there is none."""
        if not 0 <= step < len(self.steps):
            return None
        return next((n for n in map(self.node, self.steps[step]) if n.rank == rank), None)

    def node(self, index: int) -> Node:
        """Return the node with this index. Raises `InputError` for a missing one."""
        if not 0 <= index < len(self.nodes):
            raise InputError(f"node {index!r} is not from 0 to {len(self.nodes) - 1}")
        return self.nodes[index]

    @cached_property
    def winner(self) -> tuple[int, ...]:
        """Node indices of the translation."""
        return self.path(self.leaves[0]) if self.leaves else ()

    @cached_property
    def alive(self) -> frozenset[int]:
        """Indices of all nodes that lead to a leaf."""
        return frozenset(index for leaf in self.leaves for index in self.path(leaf))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Child indices of each node, best first."""
        children: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            if node.parent >= 0:
                children[node.parent].append(node.index)
        return tuple(map(tuple, children))

    def best_leaf(self, index: int) -> int | None:
        """Return the best leaf below this node, or None if there is none."""
        return next((leaf for leaf in self.leaves if index in self.path(leaf)), None)

    def last_in_beam(self, step: int) -> Node:
        """Return the lowest-ranked node in the beam at a step."""
        ranked = [self.nodes[index] for index in self.steps[step]]
        good = [place for place, node in enumerate(ranked) if node.fate != "dropped"]
        if self.beam_size > 1:  # the search may end before the beam is full
            good.append(min(self.beam_size, len(ranked)) - 1)
        return ranked[max(good)]


def beam_tree(trace: Trace) -> Tree:
    """Build the search tree of a trace.

    A beam of one compares no hypotheses: its runners-up are the trace's next-token alternatives.

    Raises: `ValueError` if the trace has no search record.
    """
    record = trace.search
    if record is None:
        raise ValueError("trace has no search record")
    rule = record.rule or PAPER
    nodes: list[Node] = []
    steps: list[tuple[int, ...]] = []
    last: dict[int, int] = {0: -1}  # last node of each live row
    for t, step in enumerate(record.steps):
        candidates = list(_considered(step, t, last, record))
        if record.beam_size == 1:
            candidates = _with_runners_up(candidates, trace, t, rule.penalty(t + 1, record.alpha))
        first = len(nodes)
        nodes += [replace(node, index=first + place) for place, node in enumerate(candidates)]
        steps.append(tuple(range(first, len(nodes))))
        rows = {(option.parent, option.token_id): option.row for option in step.candidates}
        continued = ((rows.get((node.row, node.token_id), -1), node) for node in nodes[first:])
        last = {row: node.index for row, node in continued if row >= 0}
    # "stopped" nodes ranked high enough for the beam, so their parents are not exhausted.
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
        # No hypothesis was cut if none could continue.
        ended += cut or [
            node for node in nodes
            if node.outcome == "exhausted" and node.step == nodes[-1].step
        ]  # fmt: skip
    leaves = tuple(node.index for node in sorted(ended, key=lambda node: -node.score))
    return Tree(
        records.Compact(Node, nodes), tuple(steps), leaves, record.beam_size,
        record.alpha, record.max_length, record.n_forced, record.sampling is not None, rule,
        trace.tgt_tokens[0],
    )  # fmt: skip


def _considered(
    step: records.SearchStep, t: int, last: dict[int, int], record: records.SearchRecord
) -> Iterator[Node]:
    """Yield candidates at a step as nodes without an index, best first."""
    for rank, option in enumerate(step.candidates):
        if option.fate == "dropped" and not math.isfinite(option.total):
            continue  # excluded by the model, and not forced
        outcome: Outcome = "continued"
        if option.fate == "finished":
            outcome = "finished"
        elif option.fate == "dropped":
            outcome = "outranked" if rank >= record.beam_size else "stopped"
        elif option.row < 0:
            outcome = "cut"
        yield Node(
            -1, last[option.parent], t, rank, option.parent, option.token_id, option.token,
            option.log_prob, option.total, option.score, option.fate, outcome,
        )  # fmt: skip


def _with_runners_up(nodes: Sequence[Node], trace: Trace, t: int, penalty: float) -> list[Node]:
    """Rank the single node at a step among alternative tokens by probability."""
    if not nodes or t >= len(trace.top_tokens):
        return list(nodes)
    taken, ranked = nodes[0], [nodes[0]]
    tops = trace.top_ids[t].tolist(), trace.top_tokens[t], trace.top_log_probs[t].tolist()
    for token_id, token, log_prob in zip(*tops, strict=True):
        if token_id != taken.token_id and math.isfinite(log_prob):
            total = taken.total - taken.log_prob + log_prob
            ranked.append(replace(
                taken, token_id=token_id, token=token, log_prob=log_prob, total=total,
                score=total / penalty, fate="dropped", outcome="passed",
            ))  # fmt: skip
    ranked.sort(key=lambda node: -node.log_prob)
    return [replace(node, rank=rank) for rank, node in enumerate(ranked)]


def attention_along(record: records.SearchRecord, tree: Tree, index: int) -> records.PathAttention:
    """Return the attention that predicted each token on a node's path."""
    path = tree.prefix(index)
    if not path:
        raise ValueError(f"node {index} is not in the tree; expected 0 or more")
    return records.path_attention(record.steps, [node.row for node in path])


@dataclass(frozen=True)
class Comparison:
    """Two paths and their common prefix."""

    a: tuple[Node, ...]
    b: tuple[Node, ...]
    shared: int  # length of the common prefix in tokens

    @property
    def same(self) -> bool:
        """True if one path is a prefix of the other."""
        return self.shared == min(len(self.a), len(self.b))


def compare(tree: Tree, a: int, b: int) -> Comparison:
    """Compare the paths to two nodes. Raises `InputError` for a missing one."""
    tree.node(a), tree.node(b)
    first, second = tree.prefix(a), tree.prefix(b)
    pairs = enumerate(zip(first, second, strict=False))
    shared = next((at for at, (one, other) in pairs if one.index != other.index), None)
    return Comparison(first, second, min(len(first), len(second)) if shared is None else shared)
