"""Facts of the tour "Beyond the weights", measured on the model."""

import numpy as np

from figures.labels import code, plain_token, signed
from transformer.attribution.effects import effects
from transformer.measures.heads import key_classes, rank_correlation
from transformer.search.request import excluded
from transformer.types import Floats
from transformer.worker.job import report
from ui.frame.sinks import sinks_of
from ui.head.exhibits import HeadChoice, Names
from ui.head.views import why_at
from ui.tours.stops import Scene, StopFacts, among, best, cell, fact, names, numbers, quoted, stem
from ui.tours.trace_facts import clear_step
from ui.translate.sources import MIX
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
    split, part_names = scene.result(why_at(place, key)).split, Names(trace, place, key)
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
    """The token with the smallest share of the source, the last one aside."""
    trace, shares = scene.trace, scene.result(MIX).source_share
    order = np.argsort(shares[:-1]).tolist() or [0]
    options, answer = among(order[0], [*order, *order[::-1]], names(trace.predicted_tokens))
    values = {
        "text": quoted(trace.text), "token": quoted(stem(trace.predicted_tokens[order[0]])),
        "share": shares[order[0]], "usual": float(np.median(shares)), "last": shares[-1],
        "end": quoted(trace.predicted_tokens[-1]),
    }  # fmt: skip
    return StopFacts(options, answer, values, {"sources": "on", "step": str(order[0] + 1)})
