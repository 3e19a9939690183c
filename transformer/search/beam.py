"""Beam search over a step function (section 6.1); a beam of one is greedy decoding.

A `StepFunction` turns the newest token of all rows into scores of the next one, and keeps its own
state. Rows are partial translations. A batch contains the live rows of several sentences, so
finished hypotheses cost nothing.

Every step considers the `beam_size` best continuations of a sentence. Continuations that end in
`</s>` are finished, the others stay live; one step later the beam has its full width again.

A finished hypothesis Y scores log P(Y) / ((5 + |Y|) / 6)^alpha, where |Y| counts `</s>`. Departure:
the paper takes the penalty from Wu et al. 2016, which does not say what |Y| counts.
"""

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

#: Names a token, given its id, the one before it (-1 at the beginning), and its step.
Name = Callable[[int, int, int], str]


@dataclass(frozen=True, eq=False)
class Partial:
    """The last token of a partial translation, and the node that it continues."""

    parent: "Partial | None"
    token: int
    log_prob: float
    total: float
    row: int  # row of the node's prefix, within its sentence
    length: int
    forced_end: bool = False  # `</s>` forced by the length limit

    def score(self, penalty: Penalty) -> float:
        """Return log P / lp, which ranks hypotheses."""
        return self.total / penalty(self.length)

    def path(self) -> "list[Partial]":
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
        nodes: continuations, best first.
        fates: fate of nodes; others were dropped.
        places: next row of nodes in the beam.
        rows: the sentence's rows in `scored`.
        n_source: number of source tokens without padding; None for all.
    """
    candidates = (
        Candidate(
            node.row, node.token,
            piece(node.token, -1 if node.parent is None else node.parent.token, node.length - 1),
            node.log_prob, node.total, node.score(penalty), fates.get(node, "dropped"),
            places.get(node, -1),
        )
        for node in nodes
    )  # fmt: skip
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
        ids, tuple(map(piece, ids, (-1, *ids), range(len(ids)))), node.total, node.score(penalty),
        tuple(step.row for step in path), ended and not node.forced_end,
        tuple(step.log_prob for step in path), node.forced_end,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """Search result of one sentence: hypotheses, best first, and recorded steps."""

    hypotheses: tuple[Hypothesis, ...]
    steps: tuple[SearchStep, ...] = ()


@dataclass(eq=False)
class _State:
    index: int  # position in the batch
    max_length: int  # longest translation, counting `</s>`
    prefix: tuple[int, ...]  # forced first tokens
    # At most beam_size nodes, best first; row i of the sentence is live[i].
    live: list[Partial] = field(default_factory=lambda: [Partial(None, -1, 0.0, 0.0, 0, 0)])
    # The grammar of the output, and its state at all live nodes.
    grammar: Grammar | None = None
    places: list[object | None] = field(default_factory=list)
    finished: list[Partial] = field(default_factory=list)  # in the order of their steps
    # Nodes alive at the length limit, and whether they compete with finished nodes: they do unless
    # the best continuation of some step ended.
    cut: list[Partial] = field(default_factory=list)
    cut_competes: bool = True
    steps: list[SearchStep] = field(default_factory=list)


def search(
    step: StepFunction, max_lengths: Sequence[int], settings: SearchSettings, *, prefixes:
    Sequence[Sequence[int]] | None = None, src_lengths: Sequence[int] | None = None, grammars:
    Sequence[Grammar] | None = None, piece: Name = lambda token, *_: str(token), progress:
    Callable[[int, int], None] | None = None,
) -> list[Found]:  # fmt: skip
    """Find the best translation of each sentence in a batch.

    The search of a sentence ends when no live hypothesis can beat the worst of its `n_best`
    finished hypotheses. Log-probabilities only fall, so a hypothesis with log-probability L can
    reach at most L / lp(n), with the mildest penalty: n is `max_length` for alpha >= 0, and the
    length so far below.

    Args:
        step: the model; its first call has one row per sentence.
        max_lengths: longest translation of each sentence, counting `</s>`.
        settings: beam, length penalty and record.
        prefixes: forced first token ids, fewer than `max_lengths` and without `</s>`.
        src_lengths: number of tokens of each source; removes padding from recorded attention.
        grammars: output grammar of each sentence. Allowed tokens share the probability of the
            others; forced tokens are not checked.
        piece: names a token in records.
        progress: called with (step, longest step) after each step; may raise to stop.

    Returns: one `Found` per sentence. Hypotheses cut at the length limit (`complete` is False)
        compete with finished hypotheses, unless one of these was the best of its step.
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
    refused = None
    if settings.suppressed_words:
        paths = ([n.token for n in node.path()] for state in active for node in state.live)
        refused = [settings.refused(path) for path in paths]
    return score(logits, settings, t, forced, output.decoder_self, output.cross, refused)


def _allowed(state: _State, t: int) -> list[Bools | None]:
    grammar = state.grammar
    if grammar is None or t < len(state.prefix):
        return [None] * len(state.live)
    return [None if place is None else grammar.allowed(place) for place in state.places]


def _advance(
    state: _State, rows: range, scored: Continuations, settings: SearchSettings, t: int,
    src_lengths: Sequence[int] | None, piece: Name,
) -> None:  # fmt: skip
    """Advance one sentence: rank continuations and separate finished from live nodes."""
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
    """Yield the possible continuations: the best of each row, or the sampled or forced token."""
    for row, (at, node) in enumerate(zip(rows, state.live, strict=True)):
        # A grammar may require a suppressed token, such as a copied `<unk>`.
        suppressed = {*settings.suppressed, *scored.refused[at]} if state.grammar is None else ()
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
    if not live:
        return True
    n_best = settings.n_best or settings.beam_size
    if len(state.finished) < n_best:
        return False
    bound = settings.rule.bound
    if bound == "none":
        return True
    scores = sorted((node.score(settings.penalty) for node in state.finished), reverse=True)
    longer = bound == "longest" and settings.alpha > 0  # a negative exponent favours short ones
    length = state.max_length if longer else live[0].length
    return live[0].total / settings.penalty(length) <= scores[n_best - 1]


def _result(state: _State, settings: SearchSettings, piece: Name) -> Found:
    nodes = state.finished + (state.cut if state.cut_competes else [])
    best = sorted(nodes, key=lambda node: -node.score(settings.penalty))[: settings.beam_size]
    return Found(
        tuple(recorded_hypothesis(node, settings.eos_id, settings.penalty, piece) for node in best),
        tuple(state.steps),
    )
