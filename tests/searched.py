"""Traces of searches over random distributions."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch

from tests.factories import make_trace
from transformer.search.beam import search
from transformer.search.records import SearchRecord
from transformer.search.rules import Sampling, SearchSettings
from transformer.steps import StepOutput
from transformer.trace.records import Trace

S, LAYERS, HEADS = 7, 2, 3
PIECES = ("<pad>", "<s>", "</s>", "▁es", "▁war", "müde", "▁<b>x</b>", "▁der", "▁Hund", "▁*a*", "ש")


class Table:
    """A step function with random tokens and attention by prefix; records `rows` and `calls`."""

    def __init__(
        self, seed: int, sharpness: float = 1.5, end: float = 0.0, *,
        sentences: Sequence[int] = (0,), vocab: int = len(PIECES),
        change: Callable[[torch.Tensor, Sequence[int]], object] = lambda logits, prefix: None,
    ) -> None:  # fmt: skip
        """Args: end: added to the logit of `</s>`.  change: alters logits after a prefix."""
        self.seed, self.sharpness, self.end, self.vocab = seed, sharpness, end, vocab
        self.change = change
        self.rows: list[tuple[int, ...]] = [(sentence,) for sentence in sentences]
        self.calls: list[tuple[int, bool]] = []

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        if parents is not None:
            self.rows = [self.rows[parent] for parent in parents]
        self.calls.append((len(tokens), parents is not None))
        self.rows = [(*row, token) for row, token in zip(self.rows, tokens, strict=True)]
        logits, own, cross = zip(*map(self.look, self.rows), strict=True)
        return StepOutput(torch.stack(logits), torch.stack(own, 1), torch.stack(cross, 1))

    def _drawn(self, row: Sequence[int]) -> np.random.Generator:
        return np.random.default_rng([self.seed, *row[0 if row[0] else 1 :]])

    def logits(self, sentence: int, prefix: Sequence[int]) -> torch.Tensor:
        row = (sentence, 1, *prefix)
        logits = torch.from_numpy(self.sharpness * self._drawn(row).normal(size=self.vocab)).float()
        logits[2] += self.end
        self.change(logits, prefix)
        return logits

    def look(self, row: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return logits [V], and attention to the prefix [L, H, t] and the source [L, H, S]."""
        rng = self._drawn(row)
        rng.normal(size=self.vocab)
        own = rng.dirichlet(np.ones(len(row) - 1), (LAYERS, HEADS))
        cross = rng.dirichlet(np.ones(S), (LAYERS, HEADS))
        maps = (torch.from_numpy(each.astype(np.float32)) for each in (own, cross))
        return self.logits(row[0], row[2:]), *maps


def searched(
    seed: int = 0, beam_size: int = 4, alpha: float = 0.6, max_length: int = 9, *,
    prefix: Sequence[int] = (), sampling: Sampling | None = None, sharpness: float = 1.5,
    end: float = 0.0,
) -> Trace:  # fmt: skip
    """Return a trace with a search record, whose maps are unrelated to the search."""
    settings = SearchSettings(
        beam_size, alpha, suppressed=(0, 1), record=True, top_k=6, sampling=sampling
    )
    found = search(
        Table(seed, sharpness, end), [max_length], settings, prefixes=[prefix],
        piece=lambda token, *_: PIECES[token],
    )[0]  # fmt: skip
    best = found.hypotheses[0]
    along = [(found.steps[t], row) for t, row in enumerate(best.rows)]
    top_ids = np.stack([step.top_ids[row] for step, row in along])
    record = SearchRecord(
        beam_size, alpha, max_length, found.steps, found.hypotheses, len(prefix), sampling
    )
    return dataclasses.replace(
        make_trace(S=S, T=len(best.ids) + 1, n_decoder_layers=LAYERS, n_heads=HEADS),
        predicted_ids=best.ids,
        predicted_tokens=best.tokens,
        log_probs=np.array(best.log_probs, dtype=np.float32),
        top_ids=top_ids,
        top_log_probs=np.stack([step.top_log_probs[row] for step, row in along]),
        top_tokens=tuple(tuple(PIECES[i] for i in row) for row in top_ids.tolist()),
        score=best.score,
        complete=best.complete,
        search=record,
    )
