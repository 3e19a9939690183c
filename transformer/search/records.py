"""What a search did on one sentence, as frozen NumPy records.

Shape letters: S source tokens, H heads, K alternatives kept per step, Ld decoder layers, B beam
rows.
All log-probabilities are natural (nats). Indices are 0-based; screens show them 1-based.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from transformer.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from transformer.search.rules import BeamRule
    from transformer.search.sampling import Sampling


@dataclass(frozen=True)
class Translation:
    """One finished translation.

    Attributes:
        text: the detokenised target sentence.
        tokens: target pieces without `<s>` and `</s>`.
        ids: their token ids.
        score: log P / length penalty, the quantity the search maximised; higher is better.
        log_probs: log-probability of each token of `tokens` and, last, of `</s>` (absent when the
            length limit cut the sentence).
        complete: False when the length limit was reached before `</s>`.
        unknown: source pieces that the vocabulary does not hold, as typed.
    """

    text: str
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    score: float
    log_probs: tuple[float, ...]
    complete: bool = True
    unknown: tuple[str, ...] = ()


Fate = Literal["kept", "finished", "dropped"]


@dataclass(frozen=True)
class Candidate:
    """One continuation that a search step looked at.

    Attributes:
        parent: row of the hypothesis it continues, among the rows alive at this step.
        token_id, token: the continuation.
        log_prob: its log-probability given the parent.
        total: log-probability of the whole hypothesis.
        score: total / length penalty.
        fate: "kept" in the beam, "finished" (ended in `</s>` and set aside), or "dropped".
        row: its row at the next step where kept; -1 otherwise, and where no step follows.
    """

    parent: int
    token_id: int
    token: str
    log_prob: float
    total: float
    score: float
    fate: Fate
    row: int = -1


@dataclass(frozen=True, eq=False)
class SearchStep:
    """One step of a search: the rows alive, what they attended to, and what became of them.

    Attributes:
        candidates: best first; every row's best continuations.
        top_ids, top_log_probs: [B, K], each row's K most probable next tokens.
        entropy: [B], entropy of each row's next-token distribution in nats.
        decoder_self: [B, Ld, H, t + 1], attention of the newest position onto the prefix.
        cross: [B, Ld, H, S], its attention onto the source.
        allowed: [B, K], which of `top_ids` could have been drawn; None unless sampled.
        n_allowed: [B], how many tokens of the vocabulary could have been; None unless sampled.
    """

    candidates: Sequence[Candidate]
    top_ids: Ints
    top_log_probs: Floats
    entropy: Floats
    decoder_self: Floats
    cross: Floats
    allowed: Bools | None = None
    n_allowed: Ints | None = None


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis that the search finished, or cut at the length limit.

    Attributes:
        ids, tokens: without `<s>`, with `</s>` where it was reached.
        total: log P.
        score: total / length penalty.
        rows: row held at each step; attention of step t is `steps[t].cross[rows[t]]`.
        complete: ended in `</s>`.
        log_probs: log-probability of each of `ids`.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    total: float
    score: float
    rows: tuple[int, ...]
    complete: bool
    log_probs: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class SearchRecord:
    """Everything a search saw for one sentence.

    Attributes:
        beam_size, alpha, max_length: the settings.
        steps: one per decoding step.
        hypotheses: finished ones, best score first; the first is the translation.
        n_forced: steps at which a given prefix left no choice.
        sampling: how tokens were drawn, None where the best were taken.
        rule: how hypotheses were scored and when the search stopped; None is the paper's way
            (`transformer.search.rules.PAPER`).
    """

    beam_size: int
    alpha: float
    max_length: int
    steps: tuple[SearchStep, ...]
    hypotheses: tuple[Hypothesis, ...]
    n_forced: int = 0
    sampling: Sampling | None = None
    rule: BeamRule | None = None
