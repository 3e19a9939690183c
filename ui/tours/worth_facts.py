"""Facts of the tours "Beyond the weights" and "Take it apart", measured on the model."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from figures.exhibit import Series
from figures.labels import KIND_NAMES, code, plain_token, signed
from transformer.attribution.edges import effects
from transformer.edits.language import text_of
from transformer.measures.heads import key_classes, rank_correlation
from transformer.search.request import excluded
from transformer.trace.removals import edits_off
from transformer.types import Floats
from transformer.worker.job import report
from ui.frame.sinks import sinks_of
from ui.head.exhibits import HeadChoice, Names, why_of
from ui.removals.exhibits import looks
from ui.removals.views import SMALL, ranked
from ui.tours.stops import Scene, StopFacts, among, best, cell, fact, names, numbers, quoted, stem
from ui.tours.trace_facts import clear_step
from ui.translate.views import MIX
from ui.work.results import Computation

#: Effects of cutting the decoder's look at each source token, in all layers and heads, [T, S].
EFFECTS: Computation[Floats] = Computation(
    "cross effects", (),
    lambda model, trace: effects(
        model.model, trace, "cross", excluded=excluded(model.config), progress=report
    ),
)  # fmt: skip


@fact
def weight_or_effect(scene: Scene) -> StopFacts:
    """The token that a step depends on most, where it is least the one with most weight."""
    trace, changes = scene.trace, scene.result(EFFECTS)
    weights = trace.cross.mean(axis=(0, 1))  # [T, S]
    looks, steps = weights.argmax(1), np.arange(len(weights))
    t = int((changes[steps, looks] - changes.min(1)).argmax())
    order = np.argsort(changes[t]).tolist()
    look, need = int(looks[t]), order[0]
    options, answer = among(need, [look, *order], names(trace.src_tokens))
    values = {
        "step": t + 1, "next": quoted(stem(trace.predicted_tokens[t])),
        "look": quoted(stem(trace.src_tokens[look])), "weight": weights[t, look],
        "need": quoted(stem(trace.src_tokens[need])), "change": signed(float(changes[t, need])),
        "other": signed(float(changes[t, look])), "its": weights[t, need],
        "agree": signed(np.nan_to_num(rank_correlation(weights, np.abs(changes)))),
    }  # fmt: skip
    settings = {"step": str(t + 1), "cell": "effect", "kind": "both", **cell(None, None)}
    return StopFacts(options, answer, values, settings, "same" if look == need else "")


@fact
def value_of_a_sink(scene: Scene) -> StopFacts:
    """The length of the value that a head takes from the sink it reads most."""
    trace = scene.trace
    other = [name != "word" for name in key_classes(trace.src_tokens, trace.src_special)]
    layer, head = best(trace.cross[..., other].sum((2, 3)))
    sinks = scene.result(sinks_of(("cross", layer, head)))
    length = 1.0 if sinks.length is None else sinks.length
    options, answer = numbers(length, [length / 3 + 0.1, length * 2, length + 1], "{:.2f}".format)
    values = {
        "layer": layer + 1, "head": head + 1, "weight": sinks.weight, "length": length,
        "sink": quoted(stem(trace.src_tokens[sinks.key or 0])),
    }  # fmt: skip
    settings = {"kind": "cross", "cell": "norm", **cell(layer, head)}
    return StopFacts(options, answer, values, settings, "" if length <= 0.75 else "long")


_CLASSES = {
    "embedding": "its token", "position": "its position", "head": "earlier heads",
    "feed_forward": "earlier networks", "bias": "biases",
}  # fmt: skip


@fact
def parts_of_a_score(scene: Scene) -> StopFacts:
    """The class of parts of the key that makes most of a score."""
    trace, t = scene.trace, clear_step(scene.trace)
    layer, head, key = best(trace.cross[:, :, t])
    place = HeadChoice("cross", layer, head, t)
    split = scene.result(Computation.of(why_of, place, key)).split
    part_names = Names(trace, place, key)
    query, token = (
        code(plain_token(name)) for name in (trace.predicted_tokens[t], part_names.token("key"))
    )
    of_key = split.shares.sum(0, dtype=np.float64) * (1 if split.score >= 0 else -1)
    totals = dict.fromkeys(_CLASSES, 0.0)
    for part, share in zip(split.key_parts, of_key, strict=True):
        totals[part.name] += float(share)
    most = [*_CLASSES].index(max(totals, key=totals.__getitem__))
    part = split.key_parts[int(of_key.argmax())]
    values = {
        "layer": layer + 1, "head": head + 1, "score": signed(split.score),
        "query": query, "key": token, "parts": len(of_key),
        "clause": part_names.clause(part, "key"),
        "totals": ", ".join(f"{_CLASSES[name]} {signed(x)}" for name, x in totals.items()),
    }  # fmt: skip
    settings = {"kind": "cross", "query": str(t + 1), "key": str(key + 1), **cell(layer, head)}
    return StopFacts(tuple(_CLASSES.values()), most, values, settings)


@fact
def least_from_source(scene: Scene) -> StopFacts:
    """The token with the smallest share of the source, not counting the last one."""
    trace, shares = scene.trace, scene.result(MIX).source_share
    order = np.argsort(shares[:-1]).tolist() or [0]
    options, answer = among(order[0], [*order, *order[::-1]], names(trace.predicted_tokens))
    values = {
        "text": quoted(trace.text), "token": quoted(stem(trace.predicted_tokens[order[0]])),
        "share": shares[order[0]], "usual": float(np.median(shares)), "last": shares[-1],
        "end": quoted(trace.predicted_tokens[-1]),
    }  # fmt: skip
    return StopFacts(options, answer, values, {"sources": "on", "step": str(order[0] + 1)})


QUARTERS = ("less than a quarter", "a quarter to half", "half to three quarters", "more than that")


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
    most = np.array([heads[kind].min() if heads[kind].size else 0 for kind in KIND_NAMES])
    change = signed(float(most.min()))  # kinds that print the same are equally needed
    alike = [name for name, least in zip(KIND_NAMES.values(), most, strict=True)
             if signed(float(least)) == change]  # fmt: skip
    right = " and ".join(alike)
    options = tuple(dict.fromkeys(right if name in alike else name for name in KIND_NAMES.values()))
    places = [head.off.place for head in ranked(heads)
              if signed(float(heads[head.kind][head[1:]])) == change]  # fmt: skip
    return StopFacts(
        options, options.index(right), {"place": " and ".join(places), "change": change},
        pictures=_bars(
            "Change without the most needed head of each kind", [*KIND_NAMES.values()], most
        ),
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
        _bars("Change without the heads", ("sum, each alone", "together"), [total, both]),
    )  # fmt: skip
