"""Decoding player: tokens, attention onto source and prefix, next-token bars, both maps.

One message holds all layers and heads. Stepping and choosing a layer or head need no rerun. If the
visitor takes another token, the browser reports it and Python continues decoding from it.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from figures.attention import scale_limit
from figures.labels import EFFECT_ENDS, READS_PREDICTS, cell_noun, decimal, query_labels, show_token
from transformer.measures.heads import nats_to_bits
from transformer.measures.words import Groups, group_labels, word_groups
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.components.packing import Component, attention_look, fields, labels

#: Largest number of weights that are sent with 16 bits (four exact decimals) instead of 8.
WIDE_LIMIT = 4_000_000

#: Next tokens in the list.
MOST_ALTERNATIVES = 8

#: Decoder parts to which a head on screen can belong.
PARTS = ("cross", "decoder_self", "both")

#: Kind of attention, layer and head of several heads.
Heads = Collection[tuple[AttentionKind, int, int]]

#: Valid numbers in a report: token ids; steps, layers and heads.
_ID = range(10_000_000)
_NUMBER = _ID[1:]


@dataclass(frozen=True)
class PlayerPlace:
    """A place in the player."""

    step: int  # 1-based decoding step
    #: layer, head: 1-based, or None for the mean over them
    layer: int | None = None
    head: int | None = None
    shifted: bool = False  # whether it shows how the output, shifted right, becomes the input
    kind: str = "cross"  # one of `PARTS`, to which the head belongs; the other part shows its mean


@dataclass(frozen=True)
class Move:
    """An event reported by the player."""

    place: PlayerPlace  # current place
    #: id of the token to take at this step instead of the model's, "undo" to take back the last, or
    #: "switch" to take the head out or bring it back
    take: int | Literal["undo", "switch"] | None = None
    #: ask, of: find the heads of a part that look at this key position
    ask: int | None = None
    of: str = "cross"


def parse_move(reported: Any) -> Move | None:
    """Return the player's report, or None if it is invalid."""
    number = (None, _NUMBER)
    report = fields(
        reported, step=_NUMBER, layer=number, head=number, shifted=(False, True), kind=PARTS,
        take=(None, "undo", "switch", _ID), ask=(None, _ID), of=(None, *PARTS[:2]),
    )  # fmt: skip
    if report is None:
        return None
    take, ask, of = (report.pop(name) for name in ("take", "ask", "of"))
    return Move(PlayerPlace(**report), take, ask, of or "cross")


def prefix_of(trace: Trace, move: Move, never: Collection[int] = ()) -> tuple[int, ...] | None:
    """Return target ids up to the token that a move takes, or None if it takes no valid token.

    Valid tokens are the trace's alternatives at that step, except those in `never`.
    """
    step, token = move.place.step, move.take
    if step > len(trace.predicted_ids) or not isinstance(token, int) or token in never:
        return None
    possible = token in trace.top_ids[step - 1].tolist()
    return (*trace.predicted_ids[: step - 1], token) if possible else None


def player_component(
    trace: Trace, place: PlayerPlace, *, of: str = "", words: bool = False,
    never: Sequence[int] = (), steerable: bool = True, origin: str = "Recorded live",
    group: str = "", follows: bool = False, asks: bool = False, out: Heads = (),
) -> Component[Move]:  # fmt: skip
    """Return the player of a trace as a component.

    Args:
        place: initial place, clamped to range; missing layers or heads become the mean.
        of: trace identifier.
        words: show whole words as columns; steps are always tokens.
        never: token ids that cannot be taken.
        steerable: allow another token to be taken.
        origin: source of the maps, shown unless they were compared with teacher forcing.
        group: name of players that move together; "" for a single player.
        asks: let a weight below a token ask for the heads with that weight.
        follows: leave the step buttons to another player of the group.
        out: removed heads, whose maps are hatched.

    The body holds weights as unsigned integers, the largest meaning 1, with 16 bits, or 8 bits for
    more than `WIDE_LIMIT` weights: `trace.cross` [Ld, H, T, S] in C order, then for every layer and
    head the T (T + 1) / 2 weights of `trace.decoder_self` up to the diagonal, row by row. Measures
    have one more layer and head, for all together; signed numbers run from -limit to limit.
    """
    n_steps = len(trace.predicted_tokens)
    below = np.tril_indices(n_steps)
    cells = trace.cells
    cross, own = (
        (cells.wide["cross"], cells.wide["decoder_self"]) if cells
        else (trace.cross, trace.decoder_self)
    )  # fmt: skip
    flat = np.concatenate([cross.ravel(), own[..., *below].ravel()])
    bits = 16 if flat.size <= WIDE_LIMIT else 8
    kind = np.dtype("<u2") if bits == 16 else np.dtype("u1")
    full = 2**bits - 1
    listed = trace.top_ids[:, :MOST_ALTERNATIVES].tolist()
    taken = np.exp(trace.log_probs.astype(np.float64)).round(6).tolist()
    limit = scale_limit(flat) if cells and cells.signed else 0
    weights = np.rint(
        (np.clip(flat / limit, -1, 1) + 1) * np.float32(full // 2) if limit
        else np.clip(flat, 0, 1) * np.float32(full)
    ).astype(kind)  # fmt: skip
    header = {
        "shape": list(trace.cross.shape),
        "wide": int(cells is not None),
        "limit": limit,
        "ends": EFFECT_ENDS,
        "bits": bits,
        "input": labels(trace.tgt_tokens),
        "rows": labels(query_labels(trace, "cross")),
        "predicted": labels(trace.predicted_tokens),
        "ids": list(trace.predicted_ids),
        "ended": trace.n_words < n_steps,
        "forced": trace.forced,
        "nForced": trace.n_forced,
        "never": list(never),
        "steerable": steerable,
        "asks": asks,
        "out": [*map(list, out)],
        "origin": origin,
        "gap": None if trace.forcing_gap is None else decimal(trace.forcing_gap),
        "top": alternatives(trace, MOST_ALTERNATIVES),
        "drawn": None if trace.n_allowed is None else trace.n_allowed.tolist(),
        "chosen": [
            {"rank": ids.index(chosen) if chosen in ids else -1, "probability": probability}
            for chosen, ids, probability in zip(trace.predicted_ids, listed, taken, strict=True)
        ],
        "entropy": np.round(nats_to_bits(trace.entropy.astype(np.float64)), 4).tolist(),
        "running": np.round(np.cumsum(trace.log_probs, dtype=np.float64), 4).tolist(),
        "penalties": [float(f"{penalty:.6g}") for penalty in trace.penalties],
        "query_title": READS_PREDICTS,
        **attention_look(signed=bool(limit), noun=cell_noun(cells)),
    }
    if group:
        header |= {"group": group, "follows": follows}
    header |= _columns(trace, words=words)
    return Component(
        "player", header, weights.tobytes(), choice=asdict(place), parse=parse_move, of=of
    )


def _columns(trace: Trace, *, words: bool) -> dict[str, Any]:
    """Return column names and spans for both maps, and spans for the target lane."""
    n_steps = len(trace.predicted_tokens)
    # The lane shows the decoder's input and the last prediction, which no position reads.
    lane = (*trace.tgt_tokens, trace.predicted_tokens[-1])
    alone = {*trace.tgt_special, *((n_steps,) if trace.n_words < n_steps else ())}
    if words:
        sources = word_groups(trace.src_tokens, trace.src_special)
        lanes = word_groups(lane, alone)
    else:
        sources = tuple((position,) for position in range(len(trace.src_tokens)))
        lanes = tuple((position,) for position in range(len(lane)))
    keys = tuple(filter(None, (tuple(j for j in group if j < n_steps) for group in lanes)))
    unknown, special = set(trace.src_unknown), set(trace.src_special)
    return {
        "units": "words" if words else "tokens",
        "source": labels(group_labels(trace.src_tokens, sources) if words else trace.src_tokens),
        "keys": labels(group_labels(trace.tgt_tokens, keys) if words else trace.tgt_tokens),
        "sourceSpans": _spans(sources),
        "keySpans": _spans(keys),
        "laneSpans": _spans(lanes),
        "unknown": [at for at, group in enumerate(sources) if unknown & set(group)],
        "special": [at for at, group in enumerate(sources) if special & set(group)],
    }


def _spans(groups: Groups) -> list[list[int]]:
    return [[group[0], group[-1] + 1] for group in groups]


def alternatives(trace: Trace, count: int, limit: int = 24) -> list[list[list[Any]]]:
    """Return [token, probability, id, excluded by sampling] for the best tokens per step.

    Args: limit: most characters of a token.
    """
    ids = trace.top_ids[:, :count]
    kept = np.ones_like(trace.top_ids, dtype=np.bool_) if trace.allowed is None else trace.allowed
    p = np.exp(trace.top_log_probs.astype(np.float64)).round(6)
    rows = zip(trace.top_tokens, p.tolist(), ids.tolist(), (~kept).tolist(), strict=True)
    return [
        [[show_token(token, limit), *rest] for token, *rest in zip(*row, strict=False)]
        for row in rows
    ]
