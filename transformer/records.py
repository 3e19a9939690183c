"""What a model did on one sentence, as frozen NumPy records.

These records are the only vocabulary that figures and pages share with the model. Nothing here
imports PyTorch. Shape letters: S source tokens, T decoder positions, H heads, V vocabulary,
K alternatives kept per step, Le and Ld encoder and decoder layers, B beam rows.
All log-probabilities are natural (nats). Indices are 0-based; screens show them 1-based.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]
ATTENTION_KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self", "cross")


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
    """

    candidates: tuple[Candidate, ...]
    top_ids: Ints
    top_log_probs: Floats
    entropy: Floats
    decoder_self: Floats
    cross: Floats


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
    """

    beam_size: int
    alpha: float
    max_length: int
    steps: tuple[SearchStep, ...]
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """One sentence through the model: tokens, every attention map, and the predictions.

    Row t of the decoder's maps belongs to the position whose input is `tgt_tokens[t]` and whose
    prediction is `predicted_tokens[t]`. Rows are queries, columns are keys, and rows sum to 1.

    Attributes:
        src_tokens: [S], ends with `</s>`.
        tgt_tokens: [T], the decoder's input, starts with `<s>`.
        predicted_tokens: [T], what followed each input: the translation and `</s>`.
        src_ids, tgt_ids, predicted_ids: the same as token ids.
        encoder_self: [Le, H, S, S].  decoder_self: [Ld, H, T, T].  cross: [Ld, H, T, S].
        log_probs: [T], log-probability of each predicted token.
        top_ids, top_log_probs: [T, K], the K most probable next tokens, best first.
        top_tokens: [T][K], their pieces.
        entropy: [T], entropy of the next-token distribution in nats.
        source: the sentence as typed.  text: the translation, detokenised.
        src_unknown: positions in `src_tokens` that are `<unk>`.
        src_special, tgt_special: positions of `<s>`, `</s>` and padding.
        score: log P / length penalty of the translation.
        complete: False when the length limit cut the translation.
        forced: True when the target was given rather than searched for.
        search: the search's own record where one was made.
    """

    src_tokens: tuple[str, ...]
    tgt_tokens: tuple[str, ...]
    predicted_tokens: tuple[str, ...]
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    predicted_ids: tuple[int, ...]
    encoder_self: Floats
    decoder_self: Floats
    cross: Floats
    log_probs: Floats
    top_ids: Ints
    top_log_probs: Floats
    top_tokens: tuple[tuple[str, ...], ...]
    entropy: Floats
    source: str
    text: str
    score: float
    src_unknown: tuple[int, ...] = ()
    src_special: tuple[int, ...] = ()
    tgt_special: tuple[int, ...] = ()
    complete: bool = True
    forced: bool = False
    search: SearchRecord | None = field(default=None, repr=False)

    def attention(self, kind: AttentionKind) -> Floats:
        """The maps of one kind, [L, H, queries, keys]. Raises `ValueError` on another name."""
        if kind not in ATTENTION_KINDS:
            raise ValueError(f"attention kind {kind!r} is not one of {', '.join(ATTENTION_KINDS)}")
        maps: Floats = getattr(self, kind)
        return maps

    def axis_tokens(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The (query tokens, key tokens) of one kind of map: those of its rows and columns."""
        if kind == "encoder_self":
            return self.src_tokens, self.src_tokens
        if kind == "decoder_self":
            return self.tgt_tokens, self.tgt_tokens
        if kind == "cross":
            return self.tgt_tokens, self.src_tokens
        raise ValueError(f"attention kind {kind!r} is not one of {', '.join(ATTENTION_KINDS)}")
