"""Facts of the tour "Take it apart", measured on the model."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from figures.exhibit import Series
from figures.labels import KIND_NAMES, signed
from transformer.edits.language import text_of
from transformer.measures.heads import rank_correlation
from transformer.trace.removals import edits_off
from ui.removals.exhibits import looks
from ui.removals.views import SMALL, ranked
from ui.tours.stops import Scene, StopFacts, among, fact, names, numbers, quoted, stem

QUARTERS = (
    "less than a quarter", "a quarter to half", "half to three quarters", "more than that",
)  # fmt: skip


def _bars(title: str, names: Iterable[object], values: ArrayLike) -> tuple[Series]:
    """Return changes of log-probability as a picture."""
    lines = {"change": np.asarray(values, np.float32)}
    return (Series(title, tuple(map(str, names)), lines, y_title="nats", mark="bar"),)


@fact
def how_few(scene: Scene) -> StopFacts:
    """The number of heads whose removal changes little."""
    changes = np.concatenate([change.sum(-1).ravel() for change in scene.needs().heads.values()])
    little = int((np.abs(changes) < SMALL).sum())
    values = {"source": quoted(scene.trace.source), "heads": len(changes), "little": little}
    return StopFacts(
        QUARTERS, min(3, 4 * little // len(changes)), {**values, "small": SMALL},
        pictures=_bars("Change without each head", range(1, len(changes) + 1), np.sort(changes)),
    )  # fmt: skip


@fact
def look_and_need(scene: Scene) -> StopFacts:
    """Rank correlation of the heads' sharpness and importance."""
    heads, sharp = scene.needs().heads, looks(scene.trace, None)
    look = np.concatenate([sharpness.ravel() for sharpness in sharp.values()])
    need = -np.concatenate([heads[kind].sum(-1).ravel() for kind in sharp])
    correlation = rank_correlation(look, need)
    options = ("below 0", "0 to 0.3", "0.3 to 0.6", "above 0.6")
    answer = sum(correlation >= limit for limit in (0, 0.3, 0.6))
    dots = Series("Every head", look, {"needed": need}, "largest weight, mean", "nats", "point")
    values = {"correlation": signed(0.0 if np.isnan(correlation) else correlation)}
    return StopFacts(options, answer, values, pictures=(dots,))


@fact
def which_kind(scene: Scene) -> StopFacts:
    """The kind of attention of the most needed head."""
    heads = {kind: change.sum(-1) for kind, change in scene.needs().heads.items()}
    head = ranked(heads)[0]
    change = signed(float(heads[head.kind][head.layer, head.head]))
    values = {"place": head.off.place, "change": change}
    most = np.array([heads[kind].min() if heads[kind].size else 0 for kind in KIND_NAMES])
    kinds = tuple(KIND_NAMES.values())
    return StopFacts(
        kinds, list(KIND_NAMES).index(head.kind), values,
        pictures=_bars("Change without the most needed head of each kind", kinds, most),
    )  # fmt: skip


@fact
def which_word_is_needed(scene: Scene) -> StopFacts:
    """The source token that the translation needs most."""
    trace, changes = scene.trace, scene.needs().words.sum(-1)
    order = np.argsort(changes).tolist()
    options, answer = among(order[0], order, names(trace.src_tokens))
    values = {
        "source": quoted(trace.source), "top": quoted(stem(trace.src_tokens[order[0]])),
        "change": signed(float(changes[order[0]])),
    }  # fmt: skip
    bars = _bars("Change with one token hidden", names(trace.src_tokens), changes)
    return StopFacts(options, answer, values, pictures=bars)


@fact
def all_at_once(scene: Scene) -> StopFacts:
    """The effect of removing all heads with small single effects, or the least needed half."""
    heads = {kind: change.sum(-1) for kind, change in scene.needs().heads.items()}
    order = ranked(heads)[::-1]
    little = [head for head in order if abs(heads[head.kind][head.layer, head.head]) < SMALL]
    out = little if len(little) > 1 else order[: (len(order) + 1) // 2]
    edits = text_of(edits_off(out, order))
    *alone, both = scene.together(edits)  # as the page shows them
    total, text = sum(alone), scene.without(edits)
    return StopFacts(
        *numbers(both, [total, 10 * total, total - 30, total / 4], signed),
        {"n": len(out), "total": signed(total), "both": signed(both), "text": quoted(text)},
        {"edit": edits}, "" if out is little else "half",
        _bars("Change without the heads", ("in sum, each alone", "together"), [total, both]),
    )  # fmt: skip
