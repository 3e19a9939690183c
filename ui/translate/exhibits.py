"""The player's figure: both maps, and the numbers of every step."""

from typing import Literal, get_args

import numpy as np

from figures import labels
from figures.exhibit import Exhibit, Panel, Scale, Series, file_stem
from transformer.checkpoint.reference import Kind
from transformer.measures.heads import combine, nats_to_bits
from transformer.measures.words import group_labels, merge, word_groups
from transformer.search.inputs import checked_whole
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.components.player import PlayerPlace, player_component
from ui.export.programs import Source, facts_of

#: The note below the player on the source of its maps, by kind of model.
ORIGINS: dict[Kind, str] = dict.fromkeys(get_args(Kind), "Recorded live") | {
    "archive": "As recorded in the file",
    "huggingface": "One pass over the finished translation",
}


def stem(place: PlayerPlace, *, words: bool, measure: str = "") -> str:
    """Return the file name stem, with layer and head; `measure` is "" for weights."""
    which = (
        "mean" if place.layer is None else f"layer {place.layer}",
        "mean" if place.head is None else f"head {place.head}",
    )
    part = ["self-attention"] if place.kind == "decoder_self" else []
    more = [*([measure] if measure else []), *(["words"] if words else [])]
    return file_stem("decoding", *part, *dict.fromkeys(which), *more)


def decoding(
    trace: Trace, layer: int | None = None, head: int | None = None, *, kind:
    Literal["cross", "decoder_self", "both"] = "both",
    words: bool = False, step: int = 1, shifted: bool = False, origin: str = "Recorded live",
) -> Exhibit:  # fmt: skip
    """Return the decoder's two maps and the numbers of every step as an exhibit.

    Args:
        layer, head: from 0; None is the mean.
        kind: their kind, "cross", "decoder_self" or "both"; the other kind shows its mean.
        words: make columns whole words.
        step, shifted: state of the offline player; `shifted` shows how output becomes input.
        origin: note below the player.
    """
    of_layer, of_head = (None if at is None else at + 1 for at in (layer, head))
    checked_whole("step", step, max(1, len(trace.predicted_tokens)))
    place = PlayerPlace(step, of_layer, of_head, shifted, kind)
    cells = trace.cells
    parts: tuple[AttentionKind, ...] = ("cross", "decoder_self")
    places = {part: (layer, head) if kind in (part, "both") else () for part in parts}
    cross, own = (
        cells.at(part, *place) if cells else combine(trace.attention(part), "mean", *place)
        for part, place in places.items()
    )
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
    known = len(trace.penalties)  # not in a file of another program
    scores: dict[str, np.ndarray] = {"score": running / trace.penalties} if known else {}
    entropy = nats_to_bits(trace.entropy)
    # Masked positions are NaN, to tell them from weights of 0.
    future = np.array(firsts)[None, :] > np.arange(n_steps)[:, None]
    rows, queries = labels.query_labels(trace, "cross"), f"query: {labels.READS_PREDICTS}"
    noun = labels.cell_noun(cells)
    what = f"{noun[:1].upper()}{noun[1:]}" if noun else "Attention"
    scale: tuple[Scale, str] = ("diverging" if cells and cells.signed else "attention", noun)
    named = next((name for code, name in labels.KIND_NAMES.items() if code == kind), "")
    of_kind = f" of {named.lower()}" if named and (layer, head) != (None, None) else ""
    facts = facts_of(trace, labels.cell_name((layer, head), labels.combination(cells)) + of_kind)
    how = "in one teacher-forced pass" if trace.forced else "as recorded while decoding"
    units = " Columns are words: the weights of their pieces added up." if words else ""
    prefix = ""
    if trace.n_forced and not trace.forced:
        prefix = f" The first {trace.n_forced} tokens were given."
    return Exhibit(
        name=stem(place, words=words, measure=cells.measure if cells else ""),
        title="Where the decoder looks, step by step",
        caption=f"{what} {how}; rows are queries, columns are keys.{units}{prefix}",
        parts=(
            Panel(
                "Cross-attention onto the source", cross, rows, sources, queries, "key: source",
                *scale,
            ),
            Panel(
                "Self-attention onto the prefix", np.where(future, np.nan, own),
                rows, keys, queries, "key: prefix", *scale,
            ),
            Series(
                "Translation, step by step", steps,
                {"log p so far": running, "log p of the token": trace.log_probs,
                 **{f"{name} so far": values for name, values in scores.items()}},
                "step", "nats",
            ),
            Series("Entropy of the next token", steps, {"entropy": entropy}, "step", "bits"),
        ),
        arrays={
            "cross": cross, "decoder_self": own, "reads": np.array(trace.tgt_tokens),
            "predicts": np.array(trace.predicted_tokens), "log_probs": trace.log_probs,
            "entropy": entropy, "running": running, **scores,
        },
        facts={"Translation": f"“{trace.text}”", **facts} if trace.text else facts,
        offline=player_component(
            trace, place, words=words, steerable=False, origin=origin,
        ).offline(),
    )  # fmt: skip


def player_exhibit(trace: Trace, place: PlayerPlace, source: Source, *, words: bool) -> Exhibit:
    """Return the player's picture as an exhibit with its program."""
    layer, head = (None if at is None else at - 1 for at in (place.layer, place.head))
    return source.of(
        decoding, trace, layer=layer, head=head, kind=place.kind, words=words,
        step=place.step, shifted=place.shifted, origin=ORIGINS[source.kind],
    )  # fmt: skip


def why_no_player(trace: Trace) -> str | None:
    """Return a sentence naming what a recording lacks for the player, or None."""
    missing = [
        name
        for name, values in (
            ("the tokens that were predicted", trace.predicted_tokens),
            ("their log-probabilities", trace.log_probs),
            ("the entropy of each step", trace.entropy),
        )
        if not len(values)
    ]
    if not missing:
        return None
    named = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
    return f"This page plays a translation step by step, but this file lacks {named}."
