"""What can be taken away from the player: both maps under its lens, and what every step was."""

from __future__ import annotations

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from transformer.measures.words import group_labels, merge, word_groups
from transformer.search.rules import length_penalty
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.components.player import Place, encode
from ui.core.view import View
from ui.export.download import snippet_header, take_away, trace_of
from ui.translate.words import origin_of


def offer(view: View, trace: Trace, place: Place, *, words: bool) -> None:
    """The button that takes the player's picture away, as it stands."""
    n_steps = len(trace.predicted_tokens)
    take_away(
        lambda: exhibit(view, place, words=words),
        key="player_figure",
        name=stem(place, words=words),
        n_numbers=n_steps * (len(trace.src_tokens) + n_steps + 4),
    )


def stem(place: Place, *, words: bool) -> str:
    """The file's name: which layer and head."""
    which = (
        "mean" if place.layer is None else f"layer {place.layer}",
        "mean" if place.head is None else f"head {place.head}",
    )
    return file_stem("decoding", *dict.fromkeys(which), *(["words"] if words else []))


def exhibit(view: View, place: Place, *, words: bool) -> Exhibit:
    """The picture as a figure. Needs no session."""
    trace = trace_of(view)
    cross, own = under_lens(trace.cross, place), under_lens(trace.decoder_self, place)
    sources, keys = trace.src_tokens, trace.tgt_tokens
    if words:
        source_groups = word_groups(trace.src_tokens, trace.src_special)
        key_groups = word_groups(trace.tgt_tokens, trace.tgt_special)
        cross, own = merge(cross, None, source_groups), merge(own, None, key_groups)
        sources = group_labels(trace.src_tokens, source_groups)
        keys = group_labels(trace.tgt_tokens, key_groups)
        firsts = [group[0] for group in key_groups]
    else:
        firsts = list(range(len(keys)))
    n_steps = len(trace.predicted_tokens)
    steps = np.arange(1, n_steps + 1)
    running = np.cumsum(trace.log_probs, dtype=np.float64)
    score = running / np.array([length_penalty(int(length), view.alpha) for length in steps])
    # A position cannot look at what comes after it: no weight, which is not a weight of 0.
    future = np.array(firsts)[None, :] > np.arange(n_steps)[:, None]
    queries = "query: step, by the token predicted"
    return Exhibit(
        name=stem(place, words=words),
        title="Where the decoder looks, step by step",
        caption=_caption(trace, place, words=words),
        parts=(
            Panel(
                "Cross-attention onto the source", cross, trace.predicted_tokens, sources,
                queries, "key: source",
            ),
            Panel(
                "Self-attention onto the prefix", np.where(future, np.nan, own),
                trace.predicted_tokens, keys, queries, "key: what is written",
            ),
            Series(
                "What is written, step by step", steps,
                {"log P so far": running, "score so far": score, "log P of the token":
                 trace.log_probs, "entropy (nats)": trace.entropy},
                "step", "nats",
            ),
        ),
        arrays={
            "cross": cross, "decoder_self": own, "tokens": np.array(trace.predicted_tokens),
            "log_probs": trace.log_probs, "entropy": trace.entropy, "running": running,
            "score": score,
        },
        snippet=_snippet(view, place, words=words),
        offline=Offline(
            "player",
            encode(
                trace, "still", place, words=words, alpha=view.alpha, steerable=False,
                origin=origin_of(view),
            ),
        ),
    )  # fmt: skip


def under_lens(maps: Floats, place: Place) -> Floats:
    """One layer and head of [L, H, n, m], or the mean over them."""
    layers = maps if place.layer is None else maps[place.layer - 1 : place.layer]
    heads = layers if place.head is None else layers[:, place.head - 1 : place.head]
    mean: Floats = heads.mean(axis=(0, 1))
    return mean


def _caption(trace: Trace, place: Place, *, words: bool) -> str:
    layer = "mean over layers" if place.layer is None else f"layer {place.layer}"
    head = "mean over heads" if place.head is None else f"head {place.head}"
    how = "in one teacher-forced pass" if trace.forced else "as recorded while decoding"
    units = " Columns are words: the weights of their pieces added up." if words else ""
    given = ""
    if trace.n_forced and not trace.forced:
        given = f" The first {trace.n_forced} tokens were given."
    return f"{trace.source} - {trace.text} Attention, {layer}, {head}, {how}.{units}{given}"


def _snippet(view: View, place: Place, *, words: bool) -> str:
    index = ", ".join(
        ":" if value is None else f"{value - 1}:{value}" for value in (place.layer, place.head)
    )
    merged = (
        "\n"
        "from transformer.measures.words import merge, word_groups\n"
        "\n"
        "# Columns are words: the weights of their pieces added up.\n"
        "cross = merge(cross, None, word_groups(trace.src_tokens, trace.src_special))\n"
        "decoder_self = merge(decoder_self, None, word_groups(trace.tgt_tokens, trace.tgt_special))"
        "\n"
    )
    return (
        f"{snippet_header(view)}\n"
        "# Layers and heads from 0; a mean over one of each is that one.\n"
        f"cross = trace.cross[{index}].mean(axis=(0, 1))\n"
        f"decoder_self = trace.decoder_self[{index}].mean(axis=(0, 1))\n"
        f"{merged if words else ''}\n"
        "tokens = np.array(trace.predicted_tokens)\n"
        "log_probs, entropy = trace.log_probs, trace.entropy  # nats\n"
        "running = np.cumsum(log_probs, dtype=np.float64)\n"
        "lengths = np.arange(1, len(tokens) + 1)\n"
        f"score = running / ((5 + lengths) / 6) ** {view.alpha!r}\n"
    )
