"""Beam search over a step function (section 6.1); greedy decoding is the beam of one.

This module knows no model: a `StepFunction` turns the newest token of every row into scores of the
next one, and keeps whatever state it needs. Rows are partial translations. A batch holds the live
rows of several sentences side by side, so that finished hypotheses cost nothing.

At every step the `beam_size` best continuations of a sentence are considered together. Those that
end in `</s>` are set aside as finished, the others stay live. The beam is back at its full width
one step later, and a beam of one is greedy decoding.

A finished hypothesis Y scores log P(Y) / ((5 + |Y|) / 6)^alpha, where |Y| counts `</s>`. Departure:
the paper takes the penalty from Wu et al. 2016, which does not say what |Y| counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from transformer.search.records import Candidate, Compact, Fate, Hypothesis, SearchStep
from transformer.search.rules import SearchSettings
from transformer.search.scoring import Continuations, Grammar, masked, score
from transformer.steps import StepFunction, StepOutput
from transformer.types import Bools

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
    forced_end: bool = False  # `</s>` that the length limit forced

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
    nodes: Sequence[Partial], fates: Mapping[Partial, Fate], places: Mapping[Partial, int], rows:
    range, scored: Continuations, penalty: Penalty, n_source: int | None, piece: Name,
) -> SearchStep:  # fmt: skip
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
        allowed, tops = [draw.allowed for draw in scored.drawn[here]], arrays["top_ids"]
        arrays["allowed"] = np.array(list(map(np.isin, tops, allowed)))
        arrays["n_allowed"] = np.array(list(map(len, allowed)), dtype=np.int64)
    for array in arrays.values():
        array.setflags(write=False)
    return SearchStep(Compact(Candidate, candidates), **arrays)


def recorded_hypothesis(node: Partial, eos_id: int, penalty: Penalty, piece: Name) -> Hypothesis:
    """Record the hypothesis that ends in `node`."""
    path = node.path()
    ids = tuple(step.token for step in path)
    ended = bool(ids) and ids[-1] == eos_id
    return Hypothesis(
        ids=ids,
        tokens=tuple(map(piece, ids, (-1, *ids))),
        total=node.total,
        score=node.score(penalty),
        rows=tuple(step.row for step in path),
        complete=ended and not node.forced_end,
        log_probs=tuple(step.log_prob for step in path),
        forced_end=node.forced_end,
    )


@dataclass(frozen=True, eq=False)
class Found:
    """The result of one sentence: hypotheses, best first, and the recorded steps."""

    hypotheses: tuple[Hypothesis, ...]
    steps: tuple[SearchStep, ...] = ()


@dataclass(eq=False)
class _State:
    index: int  # of the sentence in the batch
    max_length: int  # longest translation, counting `</s>`
    prefix: tuple[int, ...]  # forced first tokens
    # At most beam_size nodes, best first; row i of the sentence is live[i].
    live: list[Partial] = field(default_factory=lambda: [Partial(None, -1, 0.0, 0.0, 0, 0)])
    # What may be written, if anything limits it, and the state of every live node.
    grammar: Grammar | None = None
    places: list[object | None] = field(default_factory=list)
    # Nodes that ended in `</s>`, in the order found.
    finished: list[Partial] = field(default_factory=list)
    # Nodes alive when the length limit was reached, and whether they are ranked with the finished:
    # until the best continuation of some step ends, none has ended but by falling behind.
    cut: list[Partial] = field(default_factory=list)
    cut_competes: bool = True
    steps: list[SearchStep] = field(default_factory=list)  # the record so far


def search(
    step: StepFunction, max_lengths: Sequence[int], settings: SearchSettings, *, prefixes:
    Sequence[Sequence[int]] | None = None, src_lengths: Sequence[int] | None = None, grammars:
    Sequence[Grammar] | None = None, piece: Name = lambda token, before: str(token), progress:
    Callable[[int, int], None] | None = None,
) -> list[Found]:  # fmt: skip
    """Find the best translation of each sentence in a batch.

    A sentence ends when none of its live hypotheses can still beat the worst of its `n_best`
    finished ones. Log-probabilities only fall, so a hypothesis with log-probability L can reach
    no more than L / lp(max_length), which for alpha >= 0 is the mildest penalty ahead of it.

    Args:
        step: the model; its first call has one row per sentence.
        max_lengths: longest translation of each sentence, counting `</s>`.
        settings: beam, length penalty, what to record.
        prefixes: token ids that each translation begins with; fewer than its `max_lengths`, and
            without `</s>`.
        src_lengths: tokens of each source, to cut the padding off recorded attention.
        grammars: of each sentence, if its output has to follow one. The tokens that may follow
            share the probability of those that may not; forced tokens are not checked.
        piece: names a token in the records, given its id and the one before it.
        progress: called with (step, longest step) after each step; an exception it raises ends
            the search.

    Returns: one `Found` per sentence. Hypotheses cut at the length limit (`complete` is False) are
        ranked with those that ended, unless one of the latter was the best of its step.
    """
    states = [
        _State(index, most, () if prefixes is None else tuple(prefixes[index]))
        for index, most in enumerate(max_lengths)
    ]
    for state, grammar in zip(states, grammars or (), strict=bool(grammars)):
        state.grammar, state.places = grammar, [grammar.start()]
    active = list(states)
    tokens = [settings.bos_id] * len(states)
    parents: list[int] | None = None
    longest, n_steps = max(max_lengths, default=0), 0
    while active:
        scored = _score(step(tokens, parents), active, settings, n_steps)
        n_rows, tokens, parents, first = len(tokens), [], [], 0
        for state in active:
            rows = range(first, first + len(state.live))
            first = rows.stop
            _advance(state, rows, scored, settings, n_steps, src_lengths, piece)
            tokens += [node.token for node in state.live]
            parents += [rows.start + node.row for node in state.live]
        active = [state for state in active if state.live]
        if parents == list(range(n_rows)):
            parents = None
        n_steps += 1
        if progress is not None:
            progress(n_steps, longest)
    return [_result(state, settings, piece) for state in states]


def _score(
    output: StepOutput, active: Sequence[_State], settings: SearchSettings, t: int
) -> Continuations:
    forced = None
    if any(t < len(state.prefix) for state in active):
        forced = [
            state.prefix[t] if t < len(state.prefix) else settings.eos_id
            for state in active
            for _ in state.live
        ]
    logits = output.logits
    if any(state.grammar for state in active):
        logits = masked(logits, [allowed for state in active for allowed in _allowed(state, t)])
    return score(logits, settings, t, forced, output.decoder_self, output.cross)


def _allowed(state: _State, t: int) -> list[Bools | None]:
    """Return for every live node which tokens may follow; None if all may."""
    grammar = state.grammar
    if grammar is None or t < len(state.prefix):
        return [None] * len(state.live)
    return [None if place is None else grammar.allowed(place) for place in state.places]


def _advance(
    state: _State, rows: range, scored: Continuations, settings: SearchSettings, t: int,
    src_lengths: Sequence[int] | None, piece: Name,
) -> None:  # fmt: skip
    """Advance one sentence: rank continuations, set finished ones aside, keep the rest."""
    nodes = sorted(
        _continue(state, rows, scored, settings, t), key=lambda node: (-node.total, node.row)
    )
    chosen = nodes[: settings.n_ranked]
    finished = [node for node in chosen[: settings.beam_size] if node.token == settings.eos_id]
    live = [node for node in chosen if node.token != settings.eos_id][: settings.beam_size]
    state.finished += finished
    if chosen and chosen[0] in finished and not settings.rule.cut_competes:
        state.cut_competes = False
    at_limit = t + 1 >= state.max_length
    if at_limit or not chosen:
        cut = [node for node in live if node in chosen[: settings.beam_size]]
        state.cut = cut or ([] if chosen else state.live)
    going = [] if at_limit or _is_decided(state, live, settings) else live
    if settings.record:
        fates: dict[Partial, Fate] = dict.fromkeys(live if at_limit else going, "kept")
        fates |= dict.fromkeys(finished, "finished")
        places = {node: row for row, node in enumerate(going)}
        n_source = None if src_lengths is None else src_lengths[state.index]
        state.steps.append(
            recorded_step(nodes, fates, places, rows, scored, settings.penalty, n_source, piece)
        )
    if state.grammar is not None:
        before = [state.places[node.row] for node in going]
        state.places = [
            None if place is None else state.grammar.follow(place, node.token)
            for place, node in zip(before, going, strict=True)
        ]
    state.live = going


def _continue(
    state: _State, rows: range, scored: Continuations, settings: SearchSettings, t: int
) -> Iterator[Partial]:
    """Yield the possible continuations: each row's best, or the sampled or forced one."""
    # A grammar may ask for a token that is never chosen freely, such as a copied `<unk>`.
    suppressed = settings.suppressed if state.grammar is None else ()
    for row, (at, node) in enumerate(zip(rows, state.live, strict=True)):
        forced_end = False
        if t < len(state.prefix):
            pairs = [(state.prefix[t], scored.forced[at])]
        elif settings.forced_eos and t + 1 == state.max_length:
            pairs = [(settings.eos_id, 0.0)]
            free = next((token for token in scored.ids[at] if token not in suppressed), None)
            forced_end = free != settings.eos_id
        elif scored.drawn is not None:
            pairs = [(scored.drawn[at].token, scored.drawn[at].log_prob)]
        else:
            pairs = [
                (token, log_prob)
                for token, log_prob in zip(scored.ids[at], scored.log_probs[at], strict=True)
                if token not in suppressed and log_prob != -math.inf
            ][: settings.n_ranked]
        for token, log_prob in pairs:
            yield Partial(node, token, log_prob, node.total + log_prob, row, t + 1, forced_end)


def _is_decided(state: _State, live: Sequence[Partial], settings: SearchSettings) -> bool:
    """Return True if no live hypothesis can still enter the best `n_best` finished ones."""
    if not live:
        return True
    n_best = settings.n_best or settings.beam_size
    if len(state.finished) < n_best:
        return False
    bound = settings.rule.bound
    if bound == "none":
        return True
    scores = sorted((node.score(settings.penalty) for node in state.finished), reverse=True)
    length = state.max_length if bound == "longest" else live[0].length
    return live[0].total / settings.penalty(length) <= scores[n_best - 1]


def _result(state: _State, settings: SearchSettings, piece: Name) -> Found:
    nodes = state.finished + (state.cut if state.cut_competes else [])
    best = sorted(nodes, key=lambda node: -node.score(settings.penalty))[: settings.beam_size]
    return Found(
        tuple(recorded_hypothesis(node, settings.eos_id, settings.penalty, piece) for node in best),
        tuple(state.steps),
    )
