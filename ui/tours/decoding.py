"""Facts of the tour of decoding (sections 3.1, 3.4 and 6.1)."""

from __future__ import annotations

import math

import numpy as np

from figures.labels import plain_token, query_labels
from transformer.measures.entropy import nats_to_bits
from transformer.trace.records import Trace
from ui.tours.stops import (
    Found,
    Scene,
    Settings,
    among,
    cell,
    counts,
    names,
    numbers,
    quoted,
    shown,
    translation,
    two,
    words,
)


def open_step(trace: Trace) -> int:
    """Return the step whose most probable token is nearest to even odds."""
    return int(np.argmin(np.abs(np.exp(trace.top_log_probs[:, 0]) - 0.5)))


def _at(step: int) -> Settings:
    return {"step": str(step + 1), **cell(None, None)}


def next_token(scene: Scene) -> Found:
    """The token written at the open step, and the most probable others."""
    trace, t = scene.trace, open_step(scene.trace)
    right = shown(trace.predicted_tokens[t])
    others = [shown(token) for token in trace.top_tokens[t]]
    options = sorted(dict.fromkeys([right, *others[:5]]))[:5]
    if right not in options:
        options = sorted([right, *options[:4]])
    said = {"source": quoted(trace.source), "written": words(trace, t), "right": quoted(right)}
    probability = math.exp(float(trace.log_probs[t]))
    return Found(two(options), options.index(right), {**said, "probability": probability}, _at(t))


def what_it_reads(scene: Scene) -> Found:
    """The token that the decoder reads at the open step."""
    trace, t = scene.trace, open_step(scene.trace)
    ranking = [place for place in (t + 1, t - 1, *range(len(trace.tgt_tokens))) if place >= 0]
    options, answer = among(t, ranking, names((*trace.tgt_tokens, trace.predicted_tokens[-1])))
    row = quoted(plain_token(query_labels(trace, "cross")[t], 24))
    said = {"translation": translation(trace), "position": t + 1, "row": row}
    said["next"] = quoted(shown(trace.predicted_tokens[t]))
    return Found(options, answer, said, _at(t))


def least_sure(scene: Scene) -> Found:
    """The step with the highest entropy, among three others."""
    trace, entropy = scene.trace, nats_to_bits(scene.trace.entropy)
    hardest = int(trace.entropy.argmax())
    others = [int(t) for t in np.argsort(-trace.entropy) if t != hardest]
    steps = sorted({hardest, *others[:: max(1, len(others) // 3)][:3]})
    options = two([f"step {t + 1}: {shown(trace.predicted_tokens[t])}" for t in steps])
    each = ", ".join(f"{entropy[t]:.2g}" for t in steps)
    said = {"translation": translation(trace), "each": each}
    return Found(options, steps.index(hardest), said, _at(hardest))


def against_greedy(scene: Scene) -> Found:
    """The number of steps whose token was not the most probable, and the first of them."""
    trace = scene.trace
    leaves = [t for t, taken in enumerate(trace.predicted_ids) if taken != trace.top_ids[t, 0]]
    said = {
        "size": trace.search.beam_size if trace.search else 1, "translation": translation(trace),
        "leaves": len(leaves), "steps": len(trace.predicted_ids),
    }  # fmt: skip
    if leaves:
        t = leaves[0]
        said |= {
            "step": t + 1,
            "top": quoted(shown(trace.top_tokens[t][0])),
            "top_share": math.exp(float(trace.top_log_probs[t, 0])),
            "won": quoted(shown(trace.predicted_tokens[t])),
            "won_share": math.exp(float(trace.log_probs[t])),
        }
    return Found(*counts(len(leaves), 0, 4), said, form="" if leaves else "none")


def length_penalty(scene: Scene) -> Found:
    """The score, and what it is made of."""
    trace = scene.trace
    alpha = trace.search.alpha if trace.search else 0.6
    total, n = float(trace.log_probs.sum()), len(trace.predicted_ids)
    penalty = ((5 + n) / 6) ** alpha
    said = {"n": n, "alpha": alpha, "penalty": penalty}
    said |= {"total": _signed(total), "score": _signed(trace.score)}
    return Found(*numbers(trace.score, [total, total * penalty, total / n], _signed), said)


def _signed(number: float) -> str:
    return f"{number:.3g}".replace("-", "−")
