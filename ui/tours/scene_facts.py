"""Facts and pictures of a lecture's scenes, from the model as it is."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from figures.exhibit import Lines, Panel, Series
from figures.labels import KIND_NAMES, count, shorten
from transformer.measures.heads import entropy_bits
from transformer.trace import position_vectors
from transformer.trace.records import Trace
from transformer.trace.removals import heads_of
from transformer.types import Floats
from ui.core.doubts import headline
from ui.tours import trace_facts
from ui.tours.stops import Scene, StopFacts, UnfitError, best, counts, fact, names, quoted
from ui.tours.worth_facts import QUARTERS

_MOST_STEPS = 24  # of a translation in a lecture
_MOST_BEATS = 8  # presses for them
_DIMENSIONS = 48  # of the positions in a picture
_MOST_MOMENTS = 5
_MOST_LETTERS = 60  # of a translation that is noise, if the finished one is shorter

Text = tuple[str, Sequence[str], Sequence[int]]


def sentences(*texts: Text, light: tuple[int, int] | None = None, weights: Floats | None = None,
              title: str = "", until: tuple[int, int] | None = None,
              trail: Sequence[int] = ()) -> Lines:  # fmt: skip
    """Return sentences as a picture.

    Args:
        texts: name, tokens and marked tokens of every sentence.
        light, weights: sentence and token that the light comes from, and its weights on the first
            sentence.
        trail: tokens of the first sentence that had the most light before.
        until: sentence and token before which the picture ends; the rest keeps its place.
    """
    first = tuple(texts[0][1])
    values = np.zeros(len(first)) if weights is None else weights
    places = [
        (at, token) for at, (_, tokens, _) in enumerate(texts) for token in range(len(tokens))
    ]
    return Lines(
        title, values[None], ("light",), first, light=light, trail=tuple(trail),
        lines=tuple((name, tuple(tokens)) for name, tokens, _ in texts),
        marked=frozenset((at, token) for at, text in enumerate(texts) for token in text[2]),
        hidden=frozenset(place for place in places if until and place >= until),
    )  # fmt: skip


def written(trace: Trace, step: int, light: bool, trail: Sequence[int] = ()) -> Lines:
    """Return source and translation up to a step, with the light that it was written from."""
    row = trace.cross.mean(axis=(0, 1))[step]
    return sentences(
        _source(trace), ("translation", trace.predicted_tokens, [step]),
        light=(1, step) if light else None, weights=row, until=(1, step + 1),
        title=f"Step {step + 1} of the translation", trail=trail,
    )  # fmt: skip


def _no_longer(text: str, finished: str) -> str:
    """Return what a broken model writes, no longer than needed: long lines have small type."""
    return shorten(text, max(_MOST_LETTERS, len(finished)))


def _words(text: str) -> list[str]:
    return [f"▁{word}" for word in (text or "(nothing)").split()]


def _source(trace: Trace) -> Text:
    tokens = trace.src_tokens
    apart = [f"▁{token}" if at in trace.src_special else token for at, token in enumerate(tokens)]
    return "source", apart, ()


@fact
def scene_sentence(scene: Scene) -> StopFacts:
    """Source and translation at the clear step, without light and with it."""
    step = trace_facts.clear_step(scene.trace)
    return replace(trace_facts.which_word(scene), settings={}, pictures=(
        written(scene.trace, step, light=False), written(scene.trace, step, light=True)
    ))  # fmt: skip


@fact
def scene_steps(scene: Scene) -> StopFacts:
    """The steps at which the strongest light moves back, and the map of all steps."""
    trace = scene.trace
    rows = trace.cross.mean(axis=(0, 1))
    steps = rows[:_MOST_STEPS]
    largest, tokens = steps.argmax(axis=-1).tolist(), names(trace.predicted_tokens[: len(steps)])
    back = [quoted(token) for token, (before, after) in
            zip(tokens[1:], pairwise(largest), strict=True) if after < before]  # fmt: skip
    whole = Panel(
        "Cross-attention, mean of all heads", steps, tuple(tokens), tuple(names(trace.src_tokens)),
        "token written", "source token", rings=tuple(largest),
    )  # fmt: skip
    pictures = [
        written(trace, step, light=True, trail=largest[:step])
        for step in spread(range(len(steps)), _MOST_BEATS)
    ]
    return StopFacts(
        *counts(len(back), 0, max(len(steps) - 1, 1)),
        {"where": ", ".join(back),
         "steps": f"steps, of the first {len(steps)}," if len(rows) > len(steps) else "steps"},
        form="" if back else "never", pictures=(*pictures, whole),
    )  # fmt: skip


@fact
def scene_heads(scene: Scene) -> StopFacts:
    """One token's attention in every head of layer 1."""
    trace, token = scene.trace, trace_facts.diverse_token(scene.trace)[0]
    rows = trace.encoder_self[0, :, token].copy()
    labels = tuple(f"head {head}" for head in range(1, len(rows) + 1))
    tokens = tuple(names(trace.src_tokens))
    title = f"Encoder, layer 1: where heads look from “{names(trace.src_tokens)[token]}”"
    first = np.where(np.arange(len(rows))[:, None] == 0, rows, np.nan)
    others = f"{count(len(rows) - 1, 'other head')}: guess first"
    pictures = (Panel(title, values, labels, tokens, missing=others) for values in (first, rows))
    return replace(trace_facts.how_many_places(scene), settings={}, pictures=tuple(pictures))


@fact
def scene_masks(scene: Scene) -> StopFacts:
    """A map of the head most spread over earlier tokens, with a mask on what is not yet written."""
    maps, tokens = scene.trace.decoder_self, tuple(names(scene.trace.tgt_tokens))
    layer, head = best(entropy_bits(np.tril(maps, -1)[..., 1:]).sum(axis=-1))
    weights = np.where(np.tri(len(tokens)), maps[layer, head], np.nan)
    title = f"Decoder self-attention, layer {layer + 1}, head {head + 1}"
    return replace(trace_facts.how_many_masked(scene), settings={}, pictures=tuple(
        Panel(title, weights, tokens, tokens, "reads", "looks at", missing=words)
        for words in ("not yet written", "masked: score −∞, weight 0")
    ))  # fmt: skip


@fact
def in_no_order(scene: Scene) -> StopFacts:
    """The share of a translation that keeps its place without positions."""
    text = scene.without("no positions")
    before, after = (
        line.split() if " " in scene.trace.text else list(line) for line in (scene.trace.text, text)
    )
    text = _no_longer(text, scene.trace.text)
    same = [at for at, pair in enumerate(zip(before, after, strict=False)) if len({*pair}) == 1]
    values = {
        "before": quoted(scene.trace.text), "text": quoted(text), "same": len(same),
        "n": len(before), "what": "words" if " " in scene.trace.text else "signs",
    }  # fmt: skip
    texts = (
        _source(scene.trace), ("with positions", _words(scene.trace.text), ()),
        ("without positions", _words(text), same),
    )  # fmt: skip
    title = "The translation with and without positions"
    return StopFacts(
        QUARTERS, min(3, 4 * len(same) // max(1, len(before))), values, {"edit": "no positions"},
        pictures=(sentences(*texts, title=title, until=(2, 0)), sentences(*texts, title=title)),
    )  # fmt: skip


@fact
def scene_order(scene: Scene) -> StopFacts:
    """Patterns of positions, and the translation without them."""
    tokens, facts = tuple(names(scene.trace.src_tokens)), in_no_order(scene)
    width = scene.config.d_model + scene.config.d_model % 2
    table = position_vectors.encoding(len(tokens), width, "interleaved")[:, :_DIMENSIONS]
    pattern = Panel(
        "Positions: a pattern of sines and cosines for each token", table, tokens,
        tuple(map(str, range(1, table.shape[1] + 1))), column_title="dimension", scale="diverging",
    )  # fmt: skip
    return replace(facts, settings={}, pictures=(pattern, *facts.pictures))


@fact
def scene_root(scene: Scene) -> StopFacts:
    """A row of weights, with and without division of the scores by √d_k."""
    (layer, head, step), _, row, without = trace_facts.steepest_row(scene)
    title = f"Cross-attention, layer {layer + 1}, head {head + 1}, step {step + 1}"
    tokens = tuple(names(scene.trace.src_tokens))
    return replace(trace_facts.without_scaling(scene), settings={}, pictures=tuple(
        Series(title, tokens, {"divided": row, "not divided": other}, y_title="weight",
               mark="bar", most=float(without.max()))
        for other in (np.full_like(row, np.nan), without)
    ))  # fmt: skip


@fact
def scene_break(scene: Scene) -> StopFacts:
    """A word, and the translation without the head that it depends on."""
    if (broken := scene.broken()) is None:
        raise UnfitError(
            "No sentence of this lecture has a word that one head of this model decides."
        )
    trace, (word, step), head, trial = broken.trace, broken.target, broken.head, broken.trial
    tokens = trace.predicted_tokens[: trace.n_words]
    after, changed = list[str](), list[int]()
    for strong, run in enumerate(re.sub(" ~~.*?~~ ?", "", trial.text).split("**")):
        changed += range(len(after), len(after) + len(run.split())) if strong % 2 else []
        after += [f"▁{word}" for word in run.split()]
    row = trace.cross.mean(axis=(0, 1))[step]
    values = {
        "word": quoted(word), "outcome": trial.heading, "place": head.off.place.capitalize(),
        "n": len(heads_of(scene.config.head_shapes)),
    }  # fmt: skip
    texts = _source(trace), ("all heads", tokens, [step]), ("without one", after or ["∅"], changed)
    return StopFacts(
        tuple(KIND_NAMES.values()), [*KIND_NAMES].index(head.kind), values,
        pictures=(
            sentences(*texts, light=(1, step), weights=row, until=(2, 0), title="The whole model"),
            sentences(*texts, title=f"Without {head.off.place}"),
        ),
    )  # fmt: skip


@fact
def scene_training(scene: Scene) -> StopFacts:
    """The translation at moments of training."""
    moments = [*scene.moments().items()]
    if len(moments) < 2:
        raise UnfitError("This model has no snapshots of its training.")
    finished = headline(scene.trace)
    texts = [_no_longer(headline(trace), finished) for _, trace in moments]
    labels = [f"{updates:,} updates" if updates else "untrained" for updates, _ in moments]
    if finished != headline(moments[-1][1]):
        texts, labels = [*texts, finished], [*labels, "finished"]
    # The word that the end has and the beginning lacks, the longest as the most telling.
    runs = [_words(text) for text in texts]
    word = max([word for word in runs[-1] if word not in runs[0]] or runs[-1], key=len)
    first = next(at for at, run in enumerate(runs) if word in run)
    lines = [_source(scene.trace)]
    for label, run in zip(labels, runs, strict=True):
        lines.append((label, run, [at for at, each in enumerate(run) if each == word]))
    return StopFacts(
        tuple(labels), first, {"word": quoted(word[1:].strip(".,;:!?"))},
        pictures=tuple(sentences(*lines, title="The translation in training", until=until)
                       for until in ((2, 0), None)),
    )  # fmt: skip


def spread(items: Sequence[int], most: int = _MOST_MOMENTS) -> list[int]:
    """Return at most this many items, including the first and the last."""
    places = np.linspace(0, len(items) - 1, min(len(items), most)).round().astype(int)
    return [items[at] for at in dict.fromkeys(places.tolist())]
