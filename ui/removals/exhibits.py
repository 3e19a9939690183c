"""The figures of Heads off for download."""

import math

import numpy as np

from figures.exhibit import Exhibit, Panel, Series
from figures.labels import KIND_NAMES, numbered
from transformer.evaluation.pruning import PrunedText, Pruning, own_translation, prune, typed
from transformer.measures.heads import largest_weights
from transformer.search.inputs import checked_whole
from transformer.search.request import excluded
from transformer.trace.records import Needs, Trace
from transformer.trace.removals import needs
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats
from ui.export.programs import facts_of


def looks(trace: Trace, step: int | None) -> dict[AttentionKind, Floats]:
    """Return each head's largest weight, [L, H] by kind, at a step or as the mean of all rows."""
    return {
        kind: largest_weights(trace.attention(kind), None if kind == "encoder_self" else step)
        for kind in KIND_NAMES
    }


def bars(
    trace: Trace, effects: Needs, step: int | None
) -> dict[str, tuple[tuple[str, ...], Floats]]:
    """Return names and changes of source words, networks and layers, by kind of removal."""
    parts = {"Source token hidden from the decoder": (
        numbered(trace.src_tokens), effects.of(effects.words, step)
    )}  # fmt: skip
    for title, changes in (
        ("Feed-forward out", effects.networks),
        ("Layer skipped", effects.layers),
    ):
        names = [f"{stack} layer {n + 1}" for stack, rows in changes.items()
                 for n in range(len(rows))]  # fmt: skip
        values = np.concatenate([effects.of(rows, step) for rows in changes.values()])
        parts[title] = tuple(names), values
    return parts


def needed_parts(model: Translator, trace: Trace, step: int | None = None) -> Exhibit:
    """Return the change of a translation's log-probability without each part, as a figure.

    Args: step: of one token, from 0; None is the whole translation.
    """
    if step is not None:
        checked_whole("step", step, len(trace.tgt_ids) - 1, 0)
    return needs_exhibit(needs(model.model, trace, excluded=excluded(model.config)), trace, step)


def needs_exhibit(effects: Needs, trace: Trace, step: int | None) -> Exhibit:
    """Return the figure of `needed_parts`."""
    panels, sharp = [], looks(trace, step)
    for kind, name in KIND_NAMES.items():
        changes = effects.of(effects.heads[kind], step)
        panels += [
            Panel.of_heads(f"{name}: change without the head", changes, "diverging", "nats"),
            Panel.of_heads(f"{name}: largest weight", sharp[kind]),
        ]
    series = [
        Series(title, tuple(names), {"change in nats": values}, "", "nats", "bar")
        for title, (names, values) in bars(trace, effects, step).items()
    ]
    what = "translation" if step is None else f"token {step + 1}"
    return Exhibit(
        "needed-parts", f"What the {what} needs",
        f"Change of the log-probability of the {what} without each part; largest weights beside "
        "the heads.",
        (*panels, *series),
        {f"heads_{kind}": changes for kind, changes in effects.heads.items()}
        | {"words": effects.words},
        columns=2, facts=facts_of(trace),
    )  # fmt: skip


#: The name of the order in charts.
CHOSEN = "least harmful first"


def log_probs_of(now: Pruning) -> dict[str, Floats]:
    """Return the log-probabilities of the order on the text that chose it, and on unseen text."""
    unseen = {"the same on unseen text": now.unseen_log_probs} if now.unseen else {}
    return {CHOSEN: now.log_probs, **unseen}


def text_of_pruning(
    model: Translator,
    trace: Trace,
    languages: tuple[str, str] | None = None,
    unseen: tuple[str, str] | None = None,
) -> PrunedText:
    """Return the text that `pruning` describes."""
    return typed(model, *languages) if languages else own_translation(model, trace, unseen)


def pruning(
    model: Translator, trace: Trace, languages: tuple[str, str] | None = None,
    heads: int | None = None, unseen: tuple[str, str] | None = None,
) -> Exhibit:  # fmt: skip
    """Return what is left of a translator without its least harmful heads, as a figure.

    Args:
        trace: its sentence is the text, with the translation that the model wrote.
        languages: every other of the 200 typed sentences is the text instead, in this source and
            target language (en, de or fr); the rest is unseen text.
        heads: removed at most; None is all.
        unseen: languages of typed sentences as unseen text for the sentence.
    """
    if heads is not None:
        checked_whole("heads", heads, sum(map(math.prod, model.config.head_shapes.values())), 0)
    for now in prune(model, text_of_pruning(model, trace, languages, unseen)):
        if len(now.steps) == heads:
            break
    return pruning_exhibit(now, languages is not None)


def pruning_exhibit(now: Pruning, on_typed: bool) -> Exhibit:
    """Return the figure of `pruning`."""
    n, places = len(now.heads), np.arange(len(now.steps) + 1)
    marks = np.array(now.marks[: len(now.bleu)])
    values = now.random_values
    text = "every other of 200 typed sentences" if on_typed else "the sentence"
    reference = "the references" if on_typed else "the translation with all heads"
    bleu = np.array(now.bleu, np.float32)
    at_random = {
        name: {f"random, {what}": reduce(values[..., k], axis=1) for what, reduce in _REDUCED}
        for k, name in enumerate(("log_probs", "bleu"))
    }
    return Exhibit(
        "pruning", "What is left as heads go",
        f"Heads are removed one by one, first those that harm {text} least, and in "
        f"{values.shape[1]} random orders; BLEU of greedy translations against {reference}.",
        (
            Series("Log-probability of a token, nats", n - places, log_probs_of(now),
                   "heads left", "nats"),
            Series("Log-probability, random orders", n - marks, at_random["log_probs"],
                   "heads left", "nats"),
            Series("BLEU", n - marks, {CHOSEN: bleu, **at_random["bleu"]},
                   "heads left", "BLEU"),
        ),
        {
            "log_probs": now.log_probs, "unseen": now.unseen_log_probs, "marks": marks,
            "bleu": bleu, "random_values": values,
            "order": np.array([str(head.off) for head in now.order], "U40"),
        },
        columns=3,
    )  # fmt: skip


_REDUCED = (("mean", np.mean), ("lowest", np.min), ("highest", np.max))
