"""Facts of a trace, for the tours of attention, heads, masks and decoding (chapters 3 and 6.1)."""

import math

import numpy as np

from figures.labels import count, plain_token, query_labels
from figures.outcomes import penalty_of
from transformer.measures.heads import entropy_bits, nats_to_bits
from transformer.search.rules import PAPER
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.tours.stops import (
    Scene,
    Settings,
    StopFacts,
    among,
    best,
    cell,
    counts,
    fact,
    names,
    numbers,
    quarters,
    quoted,
    stem,
    translation,
    two,
    words,
)


def clear_step(trace: Trace) -> int:
    """Return the step with the largest mean weight on one real token."""
    mean = trace.cross.mean(axis=(0, 1)).copy()  # [T, S]
    if len(trace.src_special) < mean.shape[1]:
        mean[:, list(trace.src_special)] = 0
    if len(mean) > 1:
        mean[-1] = 0  # the end of the sentence
    return best(mean)[0]


@fact
def which_word(scene: Scene) -> StopFacts:
    """The source token with the largest mean weight at the clear step."""
    trace, t = scene.trace, clear_step(scene.trace)
    row = trace.cross.mean(axis=(0, 1))[t]
    options, answer = among(int(row.argmax()), np.argsort(-row).tolist(), names(trace.src_tokens))
    values = {"source": quoted(trace.source), "written": words(trace, t), "step": t + 1}
    values |= {"next": quoted(stem(trace.predicted_tokens[t])), "top": quoted(options[answer])}
    settings = {"step": str(t + 1), **cell(None, None)}
    return StopFacts(options, answer, {**values, "weight": row.max(), "sum": row.sum()}, settings)


@fact
def one_row(scene: Scene) -> StopFacts:
    """The largest cross-attention weight at the clear step."""
    trace, t = scene.trace, clear_step(scene.trace)
    layer, head = best(trace.cross[:, :, t].max(axis=-1))
    row = trace.cross[layer, head, t]
    return StopFacts(
        *quarters(float(row.max())),
        {
            "token": quoted(stem(trace.predicted_tokens[t])),
            "mean": trace.cross.mean(axis=(0, 1))[t].max(),
            "head": head + 1, "layer": layer + 1, "weight": row.max(),
            "key": quoted(stem(trace.src_tokens[int(row.argmax())])),
            "row": quoted(plain_token(query_labels(trace, "cross")[t], 24)),
        },
        cell(layer, head),
    )  # fmt: skip


def unscaled(rows: Floats, d_k: int) -> Floats:
    """Return attention weights [..., m] without division of the scores by sqrt(d_k).

    Softmax ignores an added constant, so log weights serve as scores; multiplying them by
    sqrt(d_k) undoes the division (section 3.2.1).
    """
    scores = np.log(np.maximum(rows.astype(np.float64), 1e-30)) * np.sqrt(d_k)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Floats = (exps / exps.sum(axis=-1, keepdims=True)).astype(np.float32)
    return weights


def steepest_row(scene: Scene) -> tuple[tuple[int, ...], int, Floats, Floats]:
    """Return the row of cross-attention whose top weight the division changes most.

    Returns: layer, head and step; d_k; its weights, and those without division.
    """
    cross, config = scene.trace.cross, scene.config
    d_k = config.d_k or config.d_model // config.n_heads
    without = unscaled(cross, d_k)
    at = best(without.max(axis=-1) - cross.max(axis=-1))
    return at, d_k, cross[at], without[at]


@fact
def without_scaling(scene: Scene) -> StopFacts:
    """The top weight of a row, scaled and unscaled."""
    (layer, head, t), d_k, row, other = steepest_row(scene)
    now, then = float(row.max()), float(other.max())
    values = {"head": head + 1, "layer": layer + 1, "step": t + 1, "now": now, "then": then}
    return StopFacts(
        *numbers(then, [now, now / np.sqrt(d_k), (now + 1) / 2], "{:.2f}".format),
        {**values, "d_k": d_k, "root": np.sqrt(d_k)},
        {"query": str(t + 1), **cell(layer, head)},
    )


def diverse_token(trace: Trace) -> tuple[int, list[int]]:
    """Return the source token with the most diverse top keys in layer 1, and these keys."""
    tops = trace.encoder_self[0].argmax(axis=-1)  # [H, S]
    keys = [[*dict.fromkeys(of_token)] for of_token in tops.T.tolist()]
    token = int(np.argmax([*map(len, keys)]))
    return token, keys[token]


@fact
def vector_size(scene: Scene) -> StopFacts:
    """The model's width, d_model."""
    size = scene.config.d_model
    return StopFacts(*numbers(size, [1, size // 2, 4 * size], "{:,.0f}".format), {"d_model": size})


@fact
def neuron_count(scene: Scene) -> StopFacts:
    """The number of neurons of an encoder's feed-forward network, d_ff."""
    size, inner = scene.config.d_model, scene.config.d_ff
    values = {"neurons": inner, "d_model": size}
    return StopFacts(*numbers(inner, [size, 2 * inner, 4 * inner], "{:,.0f}".format), values)


@fact
def how_many_places(scene: Scene) -> StopFacts:
    """The number of different top keys of the diverse token."""
    trace, n_heads = scene.trace, scene.trace.encoder_self.shape[1]
    token, keys = diverse_token(trace)
    labels = names(trace.src_tokens)
    looks = ", ".join(quoted(labels[top]) for top in keys)
    values = {
        "heads": count(n_heads, "head"), "token": quoted(labels[token]),
        "source": quoted(trace.source), "looks": looks,
    }  # fmt: skip
    return StopFacts(
        *counts(len(keys), 1, n_heads), values, form="one_head" if n_heads == 1 else ""
    )


def offset_shares(maps: Floats) -> Floats:
    """Mean weight on the token before, the token itself and the token after. [L, H, 3]."""
    shares = [
        np.diagonal(maps, offset, axis1=-2, axis2=-1).sum(axis=-1) / maps.shape[-2]
        for offset in (-1, 0, 1)
    ]
    return np.stack(shares, axis=-1).astype(np.float32)


@fact
def which_offset(scene: Scene) -> StopFacts:
    """The head with the largest weight on one offset."""
    shares = offset_shares(scene.trace.encoder_self)
    layer, head, answer = best(shares)
    options, share = ("the token before", "the token itself", "the token after"), shares.max()
    values = {"head": head + 1, "layer": layer + 1, "share": share, "where": options[answer]}
    return StopFacts(options, answer, values, cell(layer, head), "" if share > 0.4 else "weak")


@fact
def share_on_the_end(scene: Scene) -> StopFacts:
    """The head with the most weight on the end mark."""
    maps = scene.trace.encoder_self
    ends = list(scene.trace.src_special) or [maps.shape[-1] - 1]
    shares = maps[..., ends].sum(axis=-1).mean(axis=-1)  # [L, H]
    layer, head = best(shares)
    share, even = float(shares[layer, head]), 1 / maps.shape[-1]
    values = {"head": head + 1, "layer": layer + 1, "share": share, "even": even}
    form = "" if share > 3 * even else "faint"
    return StopFacts(*quarters(share), values, cell(layer, head), form)


@fact
def spread(scene: Scene) -> StopFacts:
    """Row entropy of single heads in the last layer, and of their mean."""
    maps = scene.trace.encoder_self[-1]  # [H, S, S]
    alone, together = (float(entropy_bits(rows).mean()) for rows in (maps, maps.mean(axis=0)))
    return StopFacts(
        ("more spread out", "about the same", "sharper"),
        1 if abs(together - alone) < 0.05 else 0,
        {"alone": alone, "together": together},
        cell(len(scene.trace.encoder_self) - 1, None),
        "one_head" if len(maps) == 1 else "",
    )


@fact
def last_token(scene: Scene) -> StopFacts:
    """Keys visible to the first token, and its weight on the last."""
    weights = scene.trace.encoder_self[:, :, 0]  # [L, H, S], the first token's rows
    seen, total = int((weights[0, 0] > 0).sum()), weights.shape[-1]
    layer, head = best(weights[..., -1])
    values = {"source": quoted(scene.trace.source), "total": total, "seen": seen}
    values |= {"weight": weights[layer, head, -1], "head": head + 1, "layer": layer + 1}
    return StopFacts(*numbers(seen, [1, total // 2, total], "{:.0f}".format), values)


@fact
def first_row(scene: Scene) -> StopFacts:
    """The weight of the start mark on itself."""
    maps = scene.trace.decoder_self
    weight = float(maps[:, :, 0, 0].min())
    wrong = [1 / max(maps.shape[-1], 2), 0.5, 0.0]
    return StopFacts(*numbers(weight, wrong, "{:.2f}".format), {"weight": weight})


@fact
def how_many_masked(scene: Scene) -> StopFacts:
    """The number of masked cells of decoder self-attention."""
    total = scene.trace.decoder_self.shape[-1]
    above = np.triu(np.ones((total, total), dtype=bool), 1)
    hidden = int((scene.trace.decoder_self[0, 0][above] == 0).sum())
    wrong = [total * (total + 1) // 2, total * total, total]
    values = {"total": total, "cells": total * total, "hidden": hidden, "less": total - 1}
    return StopFacts(*numbers(hidden, wrong, "{:.0f}".format), values)


@fact
def cross_open(scene: Scene) -> StopFacts:
    """Source tokens visible to the first target token."""
    row = scene.trace.cross[0, 0, 0]
    wrong = [1, len(row) // 2, len(row), 0]
    return StopFacts(*numbers(int((row > 0).sum()), wrong, "{:.0f}".format), {"total": len(row)})


def open_step(trace: Trace) -> int:
    """Return the step whose most probable token is nearest to even odds."""
    return int(np.argmin(np.abs(np.exp(trace.top_log_probs[:, 0]) - 0.5)))


def _at(step: int) -> Settings:
    return {"step": str(step + 1), **cell(None, None)}


@fact
def next_token(scene: Scene) -> StopFacts:
    """The token written at the open step, and the most probable others."""
    trace, t = scene.trace, open_step(scene.trace)
    right = stem(trace.predicted_tokens[t])
    others = [stem(token) for token in trace.top_tokens[t]]
    options = sorted(dict.fromkeys([right, *others[:5]]))[:5]
    if right not in options:
        options = sorted([right, *options[:4]])
    values = {"source": quoted(trace.source), "written": words(trace, t), "right": quoted(right)}
    probability = math.exp(float(trace.log_probs[t]))
    return StopFacts(
        two(options), options.index(right), {**values, "probability": probability}, _at(t)
    )


@fact
def what_it_reads(scene: Scene) -> StopFacts:
    """The decoder's input token at the open step."""
    trace, t = scene.trace, open_step(scene.trace)
    ranking = [place for place in (t + 1, t - 1, *range(len(trace.tgt_tokens))) if place >= 0]
    options, answer = among(t, ranking, names((*trace.tgt_tokens, trace.predicted_tokens[-1])))
    row = quoted(plain_token(query_labels(trace, "cross")[t], 24))
    values = {"translation": translation(trace), "position": t + 1, "row": row}
    values["next"] = quoted(stem(trace.predicted_tokens[t]))
    return StopFacts(options, answer, values, _at(t))


@fact
def least_sure(scene: Scene) -> StopFacts:
    """The step with the highest entropy, among three others."""
    trace, entropy = scene.trace, nats_to_bits(scene.trace.entropy)
    hardest = int(trace.entropy.argmax())
    others = [int(t) for t in np.argsort(-trace.entropy) if t != hardest]
    steps = sorted({hardest, *others[:: max(1, len(others) // 3)][:3]})
    options = two([f"step {t + 1}: {stem(trace.predicted_tokens[t])}" for t in steps])
    entropies = ", ".join(f"{entropy[t]:.2g}" for t in steps)
    values = {"translation": translation(trace), "entropies": entropies}
    return StopFacts(options, steps.index(hardest), values, _at(hardest))


@fact
def against_greedy(scene: Scene) -> StopFacts:
    """Steps that did not take the most probable token: their number, and the first."""
    trace = scene.trace
    leaves = [t for t, token in enumerate(trace.predicted_ids) if token != trace.top_ids[t, 0]]
    values = {
        "size": trace.search.beam_size if trace.search else 1, "translation": translation(trace),
        "leaves": len(leaves), "steps": len(trace.predicted_ids),
    }  # fmt: skip
    if leaves:
        t = leaves[0]
        values |= {
            "step": t + 1,
            "top": quoted(stem(trace.top_tokens[t][0])),
            "top_share": math.exp(float(trace.top_log_probs[t, 0])),
            "won": quoted(stem(trace.predicted_tokens[t])),
            "won_share": math.exp(float(trace.log_probs[t])),
        }
    return StopFacts(*counts(len(leaves), 0, 4), values, form="" if leaves else "none")


@fact
def length_penalty(scene: Scene) -> StopFacts:
    """The score of the translation and its terms."""
    trace = scene.trace
    alpha, rule = (trace.search.alpha, trace.search.rule) if trace.search else (0.6, None)
    total, n = float(trace.log_probs.sum()), len(trace.predicted_ids)
    rule = rule or PAPER
    penalty = float(trace.penalties[-1]) if len(trace.penalties) else rule.penalty(n, alpha)
    values = {"n": n, "penalty": penalty, "divisor": penalty_of(n, alpha, rule)}
    values |= {"total": _signed(total), "score": _signed(trace.score)}
    return StopFacts(*numbers(trace.score, [total, total * penalty, total / n], _signed), values)


def _signed(number: float) -> str:
    return f"{number:.3g}".replace("-", "−")
