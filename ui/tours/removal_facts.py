"""Facts for the tour that takes parts out of the model, each measured on it."""

from __future__ import annotations

import numpy as np

from figures.labels import KIND_NAMES, signed
from transformer.edits.language import text_of
from transformer.measures.heads import rank_correlation
from transformer.trace.removals import edits_off
from ui.removals.exhibits import looks
from ui.removals.views import SMALL, ranked
from ui.tours.stops import Found, Scene, among, fact, names, numbers, quoted, shown

_QUARTERS = (
    "less than a quarter", "a quarter to half", "half to three quarters", "more than that",
)  # fmt: skip


@fact
def how_few(scene: Scene) -> Found:
    """The number of heads whose removal changes little."""
    changes = np.concatenate([each.sum(-1).ravel() for each in scene.needs().heads.values()])
    little = int((np.abs(changes) < SMALL).sum())
    said = {"source": quoted(scene.trace.source), "heads": len(changes), "little": little}
    return Found(_QUARTERS, min(3, 4 * little // len(changes)), {**said, "small": SMALL})


@fact
def look_and_need(scene: Scene) -> Found:
    """The rank correlation of how sharply heads look and how much they are needed."""
    heads, sharp = scene.needs().heads, looks(scene.trace, None)
    found = rank_correlation(
        np.concatenate([each.ravel() for each in sharp.values()]),
        -np.concatenate([heads[kind].sum(-1).ravel() for kind in sharp]),
    )
    options = ("below 0", "0 to 0.3", "0.3 to 0.6", "above 0.6")
    answer = sum(found >= limit for limit in (0, 0.3, 0.6))
    return Found(options, answer, {"found": signed(0.0 if np.isnan(found) else found)})


@fact
def which_kind(scene: Scene) -> Found:
    """The kind of attention of the most needed head."""
    heads = {kind: each.sum(-1) for kind, each in scene.needs().heads.items()}
    head = ranked(heads)[0]
    change = signed(float(heads[head.kind][head.layer, head.head]))
    said = {"place": head.off.place, "change": change}
    return Found(tuple(KIND_NAMES.values()), list(KIND_NAMES).index(head.kind), said)


@fact
def which_word_is_needed(scene: Scene) -> Found:
    """The source token without which the translation becomes least likely."""
    trace, changes = scene.trace, scene.needs().words.sum(-1)
    order = np.argsort(changes).tolist()
    options, answer = among(order[0], order, names(trace.src_tokens))
    said = {
        "source": quoted(trace.source), "top": quoted(shown(trace.src_tokens[order[0]])),
        "change": signed(float(changes[order[0]])),
    }  # fmt: skip
    return Found(options, answer, said)


@fact
def all_at_once(scene: Scene) -> Found:
    """The change without all heads that alone change little, or without the least needed half."""
    heads = {kind: each.sum(-1) for kind, each in scene.needs().heads.items()}
    order = ranked(heads)[::-1]
    little = [head for head in order if abs(heads[head.kind][head.layer, head.head]) < SMALL]
    out = little if len(little) > 1 else order[: (len(order) + 1) // 2]
    total = float(sum(heads[head.kind][head.layer, head.head] for head in out))
    edits = text_of(edits_off(out, order))
    both, text = scene.without(edits)
    return Found(
        *numbers(both, [total, 10 * total, total - 30, total / 4], signed),
        {"n": len(out), "total": signed(total), "both": signed(both), "text": quoted(text)},
        {"edit": edits}, "" if out is little else "half",
    )  # fmt: skip


@fact
def in_no_order(scene: Scene) -> Found:
    """The share of a translation that stays in its place without positions."""
    _, text = scene.without("no positions")
    before, after = (
        each.split() if " " in scene.trace.text else list(each) for each in (scene.trace.text, text)
    )
    same = sum(a == b for a, b in zip(before, after, strict=False))
    said = {
        "before": quoted(scene.trace.text), "text": quoted(text), "same": same, "n": len(before),
        "what": "words" if " " in scene.trace.text else "signs",
    }  # fmt: skip
    return Found(_QUARTERS, min(3, 4 * same // max(1, len(before))), said, {"edit": "no positions"})
