"""Attention heads: entropy, combination, largest weights, weight on chosen tokens, and patterns.

Maps are [L, H, n, m]: rows are queries and sum to 1, columns are keys. Attention does not show how
the model uses values.

A pattern (previous token, first token, diagonal) is a mask [n, m] of keys. Rows with no such key
(the first token has no previous token) or a single visible key are ignored.

H(p) = -sum_i p_i log2 p_i measures uncertainty: 0 if one outcome is certain, log2 n if n are
equally likely. Traces record next-token entropies in nats; `nats_to_bits` converts them.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.measures.registered import register_measure
from transformer.text.marks import LANGUAGE, SPECIAL, unmarked
from transformer.types import Bools, Floats, literals

#: The definition of `evenness` in one sentence, for the screen.
EVENNESS_RULE = (
    "Each number is a head's entropy as a share of its maximum, averaged over its rows: "
    "0 where every query looks at one key only, 1 where it looks at all keys alike."
)


def entropy_bits(rows: Floats | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy in bits of distributions along the last axis, [..., m] to [...].

    Entries of 0, such as masked keys, contribute nothing.
    """
    values = np.asarray(rows, dtype=np.float64)
    logs = np.log2(values, out=np.zeros_like(values), where=values > 0)
    entropy: NDArray[np.float64] = np.maximum(-(values * logs).sum(axis=-1), 0.0)
    return entropy


def nats_to_bits(nats: Floats) -> Floats:
    """Return entropies or log-probabilities in bits."""
    return nats / math.log(2)


def evenness(maps: Floats) -> NDArray[np.float64]:
    """Return the evenness of each head, [L, H, n, m] to [L, H], 0 to 1: see `EVENNESS_RULE`.

    Keys that no head sees, such as later tokens in causal maps, are ignored. Rows with a single
    visible key carry no information and are left out.
    """
    visible = (maps > 0).any(axis=(0, 1)).sum(axis=-1)  # [n], number of keys visible to any head
    rows = visible > 1
    if not rows.any():
        return np.zeros(maps.shape[:2])
    share: NDArray[np.float64] = entropy_bits(maps)[..., rows] / np.log2(visible[rows])
    mean: NDArray[np.float64] = share.mean(axis=-1)
    return mean


@dataclass(frozen=True)
class Spread:
    """Sharpness measures for one row of weights."""

    entropy: float  # in bits; 0 if one key has all the weight, log2 n if n keys share it equally
    largest: float  # largest weight
    # Sum over keys of d a_j / d e_j = a_j (1 - a_j), the slope of each weight in its own logit;
    # 0 for a saturated softmax, which passes no gradient back.
    slope: float


def spread(weights: Floats) -> Spread:
    """Measure one row of weights [m] that sums to 1; masked keys have weight 0."""
    a = weights.astype(np.float64)
    return Spread(
        entropy=float(entropy_bits(a)),
        largest=float(a.max()),
        slope=max(0.0, float((a * (1 - a)).sum())),
    )


def divided(dots: Floats, mask: Bools, divisor: float) -> Floats:
    """Return softmax(dots / divisor) over visible keys, in float64.

    Args:
        dots: [..., m], q . k.  mask: as dots, True = may attend.
        divisor: sqrt(d_k) in the paper, 1 for no division.
    """
    logits = np.where(mask, dots.astype(np.float64) / divisor, -np.inf)
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    weights: Floats = powers / powers.sum(-1, keepdims=True)
    return weights


register_measure("evenness", evenness)


#: Head reduction; rows of "max" may sum to more than 1.
How = Literal["mean", "max"]
HOWS: tuple[How, ...] = ("mean", "max")

#: (layer, head), 0-based.
Head = tuple[int, int]

_ROUNDING = 1e-6


@literals
def combine(
    maps: Floats, how: How = "mean", layer: int | None = None, head: int | None = None
) -> Floats:
    """Return one head's map, or several combined element-wise, [n, m] float32.

    Args: maps: [L, H, n, m].  layer, head: 0-based; None combines all.
    """
    layers = maps if layer is None else maps[layer : layer + 1]
    return _reduced(layers if head is None else layers[:, head : head + 1], how, (0, 1))


@literals
def combine_chosen(maps: Floats, heads: Sequence[Head], how: How = "mean") -> Floats:
    """Return the combined map of heads, [L, H, n, m] to [n, m]. Raises `ValueError` if empty."""
    if not heads:
        raise ValueError("no heads chosen; expected at least one")
    return _reduced(np.stack([maps[layer, head] for layer, head in heads]), how, (0,))


@literals
def widen(maps: Floats, how: How = "mean") -> Floats:
    """Append combined heads as a last column and combined layers as a last row.

    Shapes: [L, H, n, m] to [L + 1, H + 1, n, m]; the last map combines all heads.
    """
    reduce = np.mean if how == "mean" else np.max
    wide = np.concatenate([maps, reduce(maps, axis=1, keepdims=True)], axis=1)
    return np.concatenate([wide, reduce(wide, axis=0, keepdims=True)], axis=0)


def kept_lines(maps: Floats, mass: float) -> NDArray[np.bool_]:
    """Select the fewest keys per query whose weights reach a share of the row sum.

    Args:
        maps: [..., m], non-negative.
        mass: share from 0 (no key) to 1 (all positive weights, up to float32 rounding of 1e-6).

    Returns: [..., m] bool. Equal weights are taken in key order.
    """
    if not 0 <= mass <= 1:
        raise ValueError(f"mass {mass} is out of range; expected 0 to 1")
    order = np.argsort(-maps, axis=-1, kind="stable")
    largest_first = np.take_along_axis(maps, order, axis=-1).astype(np.float64)
    before = np.cumsum(largest_first, axis=-1) - largest_first
    goal = mass * largest_first.sum(axis=-1, keepdims=True) - _ROUNDING
    keep = np.zeros(maps.shape, dtype=bool)
    np.put_along_axis(keep, order, (before < goal) & (largest_first > 0), axis=-1)
    return keep


def mass_by_head(maps: Floats, queries: Sequence[int], keys: Sequence[int]) -> NDArray[np.float64]:
    """Return the weight of maps [..., n, m] on `keys`, [...].

    Weights are summed over `keys` and averaged over `queries`, or over all queries if empty.
    """
    rows = maps[..., list(queries), :] if queries else maps
    on_keys = rows[..., list(keys)].astype(np.float64).sum(axis=-1)
    result: NDArray[np.float64] = on_keys.mean(axis=-1)
    return result


def information(maps: Floats) -> NDArray[np.float64]:
    """Return the information each query gives about its key in bits, [..., n, m] to [..., n].

    This is the Kullback-Leibler divergence of a row from the mean row of its map. Its mean over
    rows is the mutual information of query and key: 0 if all rows are equal (all at `</s>`, say),
    and large if each query looks at few keys that other queries ignore.
    """
    rows = maps.astype(np.float64)
    mean = rows.mean(axis=-2, keepdims=True)
    logs = np.log2(mean, out=np.zeros_like(mean), where=mean > 0)
    bits: NDArray[np.float64] = np.maximum(-(rows * logs).sum(axis=-1) - entropy_bits(rows), 0.0)
    return bits


def mutual_information(maps: Floats) -> NDArray[np.float64]:
    """Return the mutual information of query and key in bits, [L, H, n, m] to [L, H]."""
    return np.stack([information(layer).mean(axis=-1) for layer in maps])  # bounds the memory


def _reduced(maps: Floats, how: How, axes: tuple[int, ...]) -> Floats:
    if how == "max":
        largest: Floats = maps.max(axis=axes)
        return largest
    mean: Floats = maps.mean(axis=axes, dtype=np.float64).astype(np.float32)
    return mean


#: "diagonal": the line from first to last query and key, and one key on either side;
#: "end": special tokens after the first key, such as `</s>`; "pair": chosen tokens.
Pattern = Literal["previous", "next", "itself", "first", "end", "diagonal", "pair"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

_STEPS = {"previous": -1, "next": 1, "itself": 0}


@literals
def pattern_mask(
    pattern: Pattern, n: int, m: int, *, same: bool, causal: bool = False, special: Sequence[int] =
    (), queries: Sequence[int] = (), keys: Sequence[int] = (),
) -> Bools:  # fmt: skip
    """Return the keys in a pattern for each query, [n, m] bool.

    Args:
        same: whether queries and keys are the same tokens, as "previous" and "next" require.
        causal: exclude keys after the query.
        special: key positions of special tokens.
        queries, keys: positions for "pair".
    """
    query, key = np.arange(n)[:, None], np.arange(m)[None, :]
    if pattern in _STEPS:
        mask = (key == query + _STEPS[pattern]) & same
    elif pattern == "first":
        mask = np.broadcast_to(key == 0, (n, m))
    elif pattern == "end":
        mask = np.broadcast_to(np.isin(key, special) & (key > 0), (n, m))
    elif pattern == "diagonal":
        mask = np.abs(key - query * (m - 1) / max(1, n - 1)) <= 1
    else:
        mask = np.isin(query, queries) & np.isin(key, keys)
    pattern_keys: Bools = np.asarray(mask & (key <= query) if causal else mask.copy())
    return pattern_keys


def pattern_share(maps: Floats, mask: Bools, *, causal: bool = False) -> NDArray[np.float64] | None:
    """Return each head's mean weight on a pattern, [L, H], 0 to 1, or None if no row counts.

    Args:
        maps: [L, H, n, m], rows sum to 1.
        mask: [n, m], from `pattern_mask`.
        causal: row i sees i + 1 keys instead of m.
    """
    rows = _rows(mask, causal)
    if not rows.any():
        return None
    taken = np.einsum("lhnm,nm->lhn", maps, mask.astype(maps.dtype))  # no copy of the maps
    share: NDArray[np.float64] = taken[..., rows].mean(axis=-1, dtype=np.float64)
    return share


def even_share(mask: Bools, *, causal: bool = False) -> float:
    """Return the share of uniform attention on a pattern, or 0 if no row counts."""
    rows = _rows(mask, causal)
    return float((mask.sum(axis=-1) / _seen(mask, causal))[rows].mean()) if rows.any() else 0.0


def ranked(shares: Floats | NDArray[np.float64]) -> list[tuple[Head, float]]:
    """Return heads with their shares [L, H], largest first; ties keep head order."""
    order = np.argsort(-shares, axis=None, kind="stable")
    return [(divmod(int(at), shares.shape[1]), float(shares.flat[at])) for at in order]


def _seen(mask: Bools, causal: bool) -> NDArray[np.int64]:
    n, m = mask.shape
    return np.minimum(np.arange(n) + 1, m) if causal else np.full(n, m)  # visible keys, [n]


def _rows(mask: Bools, causal: bool) -> Bools:
    rows: Bools = mask.any(axis=-1) & (_seen(mask, causal) > 1)
    return rows


def largest_weights(maps: Floats, row: int | None = None) -> Floats:
    """Return each head's largest weight [L, H] in one row, or its mean over all rows."""
    largest: Floats = maps.max(-1)  # [L, H, n]
    return largest.mean(-1) if row is None else largest[..., row]


def ranks(values: Floats) -> Floats:
    """Return the rank of every value from 1, smallest first; ties share their mean rank."""
    _, place, counts = np.unique(values.ravel(), return_inverse=True, return_counts=True)
    mean: Floats = (counts.cumsum() - (counts - 1) / 2).astype(np.float32)[place.ravel()]
    return mean


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's rank correlation of arrays of equal size, or NaN if one is constant."""
    a, b = (place - place.mean() for place in (ranks(one), ranks(other)))
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale else math.nan


register_measure("mutual information", mutual_information)
register_measure("largest weight", largest_weights)


#: In the order of a bar: a tag names a language or task.
KeyClass = Literal["word", "punctuation", "</s>", "<s>", "tag"]
KEY_CLASSES: tuple[KeyClass, ...] = get_args(KeyClass)


def key_classes(tokens: Sequence[str], special: Sequence[int] = ()) -> tuple[KeyClass, ...]:
    """Return each token's class.

    Args: special: positions of special tokens; a first one counts as `<s>`, others as `</s>`.
    """

    def named(at: int, text: str) -> KeyClass:
        if SPECIAL.fullmatch(text) and (LANGUAGE.fullmatch(text) or text[:2] in (">>", "__", "<2")):
            return "tag"
        if at in special:
            return "<s>" if at == 0 and text != "</s>" else "</s>"
        letters = [letter for letter in text if not letter.isspace()]
        marks = letters and all(unicodedata.category(letter)[0] in "PS" for letter in letters)
        return "punctuation" if marks else "word"

    return tuple(named(at, text) for at, text in enumerate(unmarked(tokens)))


def mass_by_class(maps: Floats, classes: Sequence[KeyClass]) -> dict[KeyClass, float]:
    """Return the share of maps [..., n, m] on each class of key that the text has."""
    total = float(maps.sum(dtype=np.float64)) or 1.0
    columns = maps.reshape(-1, maps.shape[-1]).sum(0, dtype=np.float64) / total
    return {
        name: float(sum(columns[at] for at, own in enumerate(classes) if own == name))
        for name in KEY_CLASSES if name in classes
    }  # fmt: skip
