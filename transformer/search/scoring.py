"""The best next tokens of all rows, from logits and an optional grammar."""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from transformer.search.rules import Drawn, SearchSettings, draw
from transformer.types import Bools, Floats, Ints

#: Rows of at least LONG_ROW scores are searched in groups of GROUP.
LONG_ROW, GROUP = 2_000, 32


@dataclass(frozen=True, eq=False)
class Continuations:
    """The best next tokens of all rows, on the CPU.

    K' = candidates + suppressed + most refused, at most V.
    """

    ids: list[list[int]]  # [R][K']
    log_probs: list[list[float]]
    forced: list[float]  # [R], log-probability of the prefix's token
    refused: list[Collection[int]]  # [R], ids that would complete a suppressed sequence
    drawn: list[Drawn] | None = None  # [R], sampled tokens
    # Only for records:
    top_ids: Ints | None = None  # [R, K]
    top_log_probs: Floats | None = None  # [R, K]
    entropy: Floats | None = None  # [R]
    decoder_self: Floats | None = None  # [R, Ld, H, t]
    cross: Floats | None = None  # [R, Ld, H, S]


def normalised(logits: Tensor, excluded: Sequence[int] = ()) -> Tensor:
    """Return the log-probabilities of logits [R, V], without the excluded ids."""
    return (_without(logits, excluded) if excluded else logits).log_softmax(1)


def _without(logits: Tensor, excluded: Sequence[int]) -> Tensor:
    return logits.index_fill(1, torch.tensor(excluded, device=logits.device), -math.inf)


def score(
    logits: Tensor | Iterable[Tensor], settings: SearchSettings, step: int = 0, forced:
    Sequence[int] | None = None, decoder_self: Tensor | None = None, cross: Tensor | None = None,
    refused: Sequence[Collection[int]] | None = None,
) -> Continuations:  # fmt: skip
    """Normalise logits and copy the needed values to the CPU.

    Args:
        logits: [R, V], or an iterator over blocks of rows: a block in the processor's caches is
            normalised several times faster.
        step: 0-based step.
        forced: [R], tokens whose log-probability is needed.
        decoder_self, cross: [Ld, R, H, n], weights to record.
        refused: [R], ids that would complete a suppressed sequence.

    Raises: `FloatingPointError` if a row's logits are NaN.
    """
    blocks = [logits] if isinstance(logits, Tensor) else logits
    parts, first = [], 0
    for block in blocks:
        here = None if forced is None else forced[first : first + len(block)]
        never: list[Collection[int]] = [()] * len(block)
        if refused is not None:
            never = [*refused[first : first + len(block)]]
        parts.append(_score_block(block, settings, step, here, never))
        first += len(block)
    one = parts[0] if len(parts) == 1 else _joined(parts)
    if not settings.record:
        return one
    return dataclasses.replace(one, decoder_self=_by_row(decoder_self), cross=_by_row(cross))


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores of all rows [R, V], best first, and their ids: both [R, count].

    Long rows are searched only in the groups with the largest maxima, which contain the best
    scores. A `count` above V is V.
    """
    n_rows, size = scores.shape
    count = min(count, size)
    n_groups = size // GROUP
    if size < LONG_ROW or 4 * count > n_groups or scores.device.type != "cpu":
        return scores.topk(count, dim=1)
    grouped = scores[:, : n_groups * GROUP].view(n_rows, GROUP, n_groups)
    groups = grouped.amax(1).topk(count, dim=1, sorted=False).indices  # [R, count]
    candidates = grouped.gather(2, groups[:, None].expand(-1, GROUP, -1)).flatten(1)
    rest = scores[:, n_groups * GROUP :]
    values, places = torch.cat([candidates, rest], dim=1).topk(count, dim=1)
    row, column = places // count, places % count
    ids = row * n_groups + groups.gather(1, column)
    after = places - candidates.size(1)  # index in the rest, if not negative
    return values, torch.where(after < 0, ids, after + n_groups * GROUP)


def entropy_nats(log_probs: Tensor) -> Tensor:
    """Return the entropy of each distribution in nats. Shapes: [..., V] to [...]."""
    # Bounded, so that a probability of 0 adds 0 instead of NaN.
    entropy: Tensor = -torch.linalg.vecdot(log_probs.exp(), log_probs.clamp_min(-1e4))
    return entropy


def _score_block(
    logits: Tensor, settings: SearchSettings, step: int, forced: Sequence[int] | None,
    refused: list[Collection[int]],
) -> Continuations:  # fmt: skip
    if settings.excluded:
        logits = _without(logits, settings.excluded)
        for row, ids in enumerate(refused):
            logits[row, list(ids)] = -math.inf
    n_chosen = settings.n_ranked + len(settings.suppressed) + max(map(len, refused))
    n_shown = settings.top_k if settings.record else 0
    values, ids = best(logits, max(n_chosen, n_shown))  # [r, K'], at most V
    largest = values[:, :1]
    probabilities = logits.softmax(1)
    # Log of the softmax denominator relative to the largest logit: exact for likely tokens.
    spread = -probabilities.gather(1, ids[:, :1]).log()  # [r, 1]
    values = values - largest - spread
    log_probs: list[list[float]] = values[:, :n_chosen].tolist()
    if any(math.isnan(row[0]) for row in log_probs):
        raise FloatingPointError("the model's scores are not numbers (NaN)")
    drawn = None
    if settings.sampling is not None:
        rows = normalised(logits).float().cpu().numpy()
        drawn = [
            draw(row, settings.sampling, step, (*settings.suppressed, *never))
            for row, never in zip(rows, refused, strict=True)
        ]
    forced_log_probs = [math.nan] * len(logits)
    if forced is not None:
        at = torch.tensor(forced, device=logits.device)
        forced_log_probs = (logits.gather(1, at[:, None]) - largest - spread)[:, 0].tolist()
    continuations = Continuations(
        ids[:, :n_chosen].tolist(), log_probs, forced_log_probs, refused, drawn
    )
    if not n_shown:
        return continuations
    # -sum p log p, where log p is the logit less `largest` and `spread`. A probability of 0 adds 0.
    below = (logits - largest).clamp_min_(-1e4)
    entropy = spread[:, 0] - torch.linalg.vecdot(probabilities, below)
    return dataclasses.replace(
        continuations,
        top_ids=ids[:, :n_shown].cpu().numpy(),
        top_log_probs=values[:, :n_shown].float().cpu().numpy(),
        entropy=entropy.float().cpu().numpy(),
    )


def _joined(parts: Sequence[Continuations]) -> Continuations:
    joined: dict[str, Any] = {}
    for name, first in vars(parts[0]).items():
        every = [getattr(part, name) for part in parts]
        if isinstance(first, list):
            joined[name] = list(itertools.chain.from_iterable(every))
        elif first is not None:
            joined[name] = np.concatenate(every)
    return Continuations(**joined)


def _by_row(weights: Tensor | None) -> Floats | None:
    array: Floats | None = (
        None if weights is None else weights.transpose(0, 1).float().cpu().numpy()
    )
    return array


class Grammar(Protocol):
    """The tokens that may follow in the output of one sentence.

    A state is any object. None means that no rule applies, such as after a forced prefix outside
    the grammar.
    """

    def start(self) -> object:
        """Return the state before the first token."""

    def follow(self, state: object, token: int) -> object | None:
        """Return the state after one more token."""

    def allowed(self, state: object) -> Bools:
        """Return a mask [V] of the tokens that may follow a state, at least one."""


def masked(logits: Tensor | Iterable[Tensor], allowed: Sequence[Bools | None]) -> Iterator[Tensor]:
    """Yield blocks of logits [r, V] with -inf for forbidden tokens.

    Args: allowed: token masks of all rows; None allows all tokens.
    """
    first = 0
    for block in [logits] if isinstance(logits, Tensor) else logits:
        rows = allowed[first : first + len(block)]
        first += len(block)
        may_follow = torch.ones(block.shape, dtype=torch.bool)
        for row, tokens in zip(may_follow, rows, strict=True):
            if tokens is not None:
                row.copy_(torch.from_numpy(tokens))
        yield block.masked_fill(~may_follow.to(block.device), -torch.inf)
