"""Greedy pruning of heads on a text: log-probability and BLEU against a random order."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from transformer.edits.language import MAX_EDITS
from transformer.hooks import HeadGates
from transformer.measures.bleu import corpus_bleu
from transformer.search.request import excluded
from transformer.trace.records import Pair, Trace
from transformer.trace.removals import Head, Pruned, edits_off, heads_of, pruned, total_log_prob
from transformer.training.typed import typed_sentences
from transformer.translator import Translator
from transformer.types import Floats, Report, no_report

#: Seeds of the random orders, and the number of steps at which BLEU and these are measured.
SEEDS, MOST_MARKS = (1, 2, 3), 12


@dataclass(frozen=True)
class PrunedText:
    """The text for pruning heads."""

    pairs: tuple[Pair, ...]
    references: tuple[str, ...]
    excluded: tuple[int, ...] = ()  # ids that never get probability, as in the search
    unseen: tuple[Pair, ...] = ()  # tests the order of heads, which it does not choose


@dataclass(frozen=True, eq=False)
class Pruning:
    """State of a pruning. Marks are numbers of removed heads."""

    heads: tuple[Head, ...]  # all heads of the model
    n_tokens: int  # tokens in all translations
    log_prob: float  # log-probability of all translations with all heads, in nats
    n_unseen: int = 0  # tokens of the unseen translations
    unseen: tuple[float, ...] = ()  # their log-probability after 0, 1, 2, ... heads, in nats
    steps: tuple[Pruned, ...] = ()
    bleu: tuple[float, ...] = ()  # BLEU at each mark so far
    #: log-probability and BLEU of each random order at each mark so far
    at_random: tuple[tuple[tuple[float, float], ...], ...] = ()

    @property
    def order(self) -> tuple[Head, ...]:
        """Removed heads in order of removal."""
        return tuple(step.head for step in self.steps)

    @property
    def marks(self) -> tuple[int, ...]:
        """The marks, from 0 to the number of heads."""
        n = len(self.heads)
        return tuple(dict.fromkeys(round(n * k / MOST_MARKS) for k in range(MOST_MARKS + 1)))

    @property
    def done(self) -> bool:
        """True once all heads are out."""
        return len(self.steps) == len(self.heads)

    @property
    def log_probs(self) -> Floats:
        """Mean log-probability of a token after 0, 1, 2, ... heads, in nats."""
        sums = [self.log_prob, *(step.log_prob for step in self.steps)]
        return (np.array(sums) / self.n_tokens).astype(np.float32)

    @property
    def unseen_log_probs(self) -> Floats:
        """`log_probs` on unseen text; empty without any."""
        return (np.array(self.unseen) / max(1, self.n_unseen)).astype(np.float32)

    @property
    def random_values(self) -> Floats:
        """Mean log-probability of a token, and BLEU, of random orders: [marks, seeds, 2]."""
        return (np.array(self.at_random) / (self.n_tokens, 1)).astype(np.float32)


def harmless(log_probs: Floats, nats: float) -> int:
    """Return the number of heads that can be removed before a token loses `nats`."""
    return int(np.argmin(np.append(log_probs > log_probs[0] - nats, False))) - 1


def typed(translator: Translator, src: str, tgt: str) -> PrunedText:
    """Return every other typed sentence with its first accepted translation; the rest is unseen.

    Raises: `DataError` for languages that the list lacks.
    """
    sentences = typed_sentences(src, tgt)
    pairs = tuple(translator.pair(one.source, one.accepted[0]) for one in sentences)
    references = tuple(one.accepted[0] for one in sentences[::2])
    return PrunedText(pairs[::2], references, unseen=pairs[1::2])


def own_translation(
    translator: Translator, trace: Trace, unseen: tuple[str, str] | None = None
) -> PrunedText:
    """Return one sentence with the model's translation.

    The BLEU reference is the greedy translation, since pruned models decode greedily.

    Args: unseen: source and target languages of typed sentences as unseen text.
    """
    pair = Pair(trace.src_ids, trace.tgt_ids, trace.predicted_ids)
    greedy = translator.translate([trace.src_ids], 1)[0].text
    others = typed(translator, *unseen).unseen if unseen else ()
    return PrunedText((pair,), (greedy,), excluded(translator.config), others)


def prune(
    translator: Translator,
    text: PrunedText,
    start: Pruning | None = None,
    progress: Report = no_report,
) -> Iterator[Pruning]:
    """Remove heads, the least harmful first, and yield the state after each.

    Args:
        start: the last state yielded before a stop; the result is the same as without a stop.
        progress: called often with (removed heads, all heads); may raise to stop.
    """
    model, heads = translator.model, heads_of(translator.config.head_shapes)
    orders = [[heads[n] for n in np.random.default_rng(seed).permutation(len(heads))]
              for seed in SEEDS]  # fmt: skip
    tokens, n_unseen = (
        sum(len(pair.tgt_ids) for pair in pairs) for pairs in (text.pairs, text.unseen)
    )
    now = start or Pruning(heads, tokens, math.nan, n_unseen)

    def report() -> None:
        progress(len(now.steps), len(heads))

    def bleu_without(out: Collection[Head]) -> float:
        other, hooks, edits = translator, None, edits_off(out, heads)
        if len(edits) <= MAX_EDITS:
            other = translator.edited(*edits)
        else:  # the same, but slower
            hooks = HeadGates.of(translator.config, dict.fromkeys(out, 0.0))
        sources = [pair.src_ids for pair in text.pairs]
        translations = other.translate(sources, 1, hooks=hooks, progress=lambda *_: report())
        return corpus_bleu([translation.text for translation in translations], text.references)

    def measured(pruning: Pruning) -> Pruning:
        out = pruning.order
        if text.unseen:
            unseen = total_log_prob(model, text.unseen, [out], text.excluded, report)
            pruning = replace(pruning, unseen=(*pruning.unseen, *unseen))
        if len(out) not in pruning.marks:
            return pruning
        sets: Sequence[Sequence[Head]] = [order[: len(out)] for order in orders]
        if not out or pruning.done:  # the same heads in any order
            same = (pruning.steps[-1].log_prob if out else pruning.log_prob, bleu_without(out))
            values = (same,) * len(sets)
        else:
            sums = total_log_prob(model, text.pairs, sets, text.excluded, report)
            values = tuple(zip(sums, map(bleu_without, sets), strict=True))
        ours = values[0][1] if not out or pruning.done else bleu_without(out)
        return replace(pruning, bleu=(*pruning.bleu, ours), at_random=(*pruning.at_random, values))

    if start is None:
        (whole,) = total_log_prob(model, text.pairs, [()], text.excluded, report)
        now = measured(replace(now, log_prob=whole))
        yield now
    for step in pruned(
        model, text.pairs, after=now.steps, excluded=text.excluded, progress=progress
    ):
        before = tuple(
            step_before._replace(harms={}) for step_before in now.steps
        )  # the last ones count
        now = measured(replace(now, steps=(*before, step)))
        yield now
