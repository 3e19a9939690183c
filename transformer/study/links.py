"""Roles of cross-attention heads by known word links: the word that a translator translates.

Text: 240 sentences of the training text with known links (`transformer.training.linked`). The
model follows the given translation; each linked target word is a trial, a hit has its largest
weight on a word that it may be linked to. A head must beat the diagonal (as the distance), the most
frequent link (as the word: the source word that a target word has most often in the other half of
the documents), the word with the head's largest weight from all other words, and random weights.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from transformer.measures.pharaoh import Linked
from transformer.measures.words import Row, diagonal, words_of
from transformer.study import statistics
from transformer.study.records import Role, Study
from transformer.study.roles import MAX_OFFSET, Tally, Words, looks
from transformer.translator import Translator
from transformer.types import Report, no_report

ROLES: dict[Row, Role] = {
    "predicting": Role("translates", "the word it translates", "links"),
    "reading": Role("translated", "the word just translated", "links"),
}
#: Sentences in a batch.
_BATCH = 16


def tally_of(
    model: Translator, control: Translator, linked: Sequence[Linked], report: Report = no_report
) -> Tally:
    """Return trials and hits of all cross-attention heads; every sentence is a document."""
    n_layers, n_heads = model.config.n_decoder_layers, model.config.n_heads
    tally = Tally.empty(len(linked), len(ROLES), n_layers * n_heads)
    halves = _frequent(linked[1::2]), _frequent(linked[::2])  # of the other documents
    for start in range(0, len(linked), _BATCH):
        report(start, len(linked))
        some = linked[start : start + _BATCH]
        texts = [pair.source for pair in some], [pair.target for pair in some]
        traces = zip(*(
            one.traces(texts[0], targets=texts[1], top_k=1) for one in (model, control)
        ), strict=True)  # fmt: skip
        for document, (pair, both) in enumerate(zip(some, traces, strict=True), start):
            for number, row in enumerate(ROLES):
                found = words_of(both[0], row)
                sources, targets = found.sources, found.targets
                words = Words(targets, sources, found.rows, found.columns, of_corpus=False)
                (keys, blind), (random, _) = (
                    looks(trace.cross.reshape(-1, *trace.cross.shape[2:]), words, "cross")[:2]
                    for trace in both
                )
                guess = {to: place for place, to in diagonal(len(targets), len(sources))}
                right: dict[int, list[int]] = defaultdict(list)
                for place, to in pair.gold.possible:
                    right[to].append(place)
                for to, places in right.items():
                    at = (document, number)
                    tally.pairs[at] += 1
                    for hits, looked in (
                        (tally.hits, keys), (tally.blind, blind), (tally.random, random)
                    ):  # fmt: skip
                        hits[at] += np.isin(looked[:, to], places)
                    tally.offsets[(*at, MAX_OFFSET)] += guess[to] in places
                    form = halves[document % 2].get(targets[to].casefold())
                    known = any(sources[place].casefold() == form for place in places)
                    tally.words[(*at, "most frequent link")] += known
    return tally


def _frequent(linked: Sequence[Linked]) -> dict[str, str]:
    """Return the source word that each target word is linked to most often."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in linked:
        sources, targets = pair.source.casefold().split(), pair.target.casefold().split()
        for at, to in sorted(pair.gold.possible):
            counts[targets[to]][sources[at]] += 1
    return {target: count.most_common(1)[0][0] for target, count in counts.items()}


def with_links(
    study: Study, model: Translator, control: Translator, linked: Sequence[Linked],
    report: Report = no_report,
) -> Study:  # fmt: skip
    """Return a study with the roles of `ROLES`; Holm's correction is over them alone."""
    judged = statistics.judged([*ROLES.values()], [tally_of(model, control, linked, report)], None)
    cross = np.array([head.kind == "cross" for head in study.heads])
    scores = {name: _appended(name, row, judged, cross) for name, row in study.scores.items()}
    notes = {**study.notes, "links": f"{len(linked)} sentences of the training text"}
    return replace(study, roles=(*study.roles, *ROLES.values()), scores=scores, notes=notes)


def _appended(name: str, old: Any, judged: Mapping[str, Any], cross: Any) -> Any:
    new = np.full((len(ROLES), len(cross)), np.nan if old.dtype.kind == "f" else 0, old.dtype)
    new[:, cross] = judged[name]
    return np.concatenate([old, new])
