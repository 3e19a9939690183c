"""The figures of Translate: the player's, the decoder by layers, and a choice taken apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import KIND_NAMES, READS_PREDICTS, cell_name, plain_token, query_labels
from transformer.checkpoint.reference import Kind
from transformer.measures.compare import not_shared
from transformer.measures.entropy import nats_to_bits
from transformer.measures.heads import combine
from transformer.measures.words import group_labels, merge, word_groups
from transformer.search.records import Translation
from transformer.search.request import Progress, SearchOptions, excluded
from transformer.search.rules import length_penalty
from transformer.trace.lens import changes_without, lens, logit_shares, parts_of
from transformer.trace.records import Lens, Trace
from transformer.translator import Translator
from ui.components.layers import columns, layers_component
from ui.components.player import PlayerPlace, player_component
from ui.export.programs import Source, facts_of


def stem(place: PlayerPlace, *, words: bool) -> str:
    """Return the file name's stem: which layer and head."""
    which = (
        "mean" if place.layer is None else f"layer {place.layer}",
        "mean" if place.head is None else f"head {place.head}",
    )
    part = ["self-attention"] if place.kind == "decoder_self" else []
    return file_stem("decoding", *part, *dict.fromkeys(which), *(["words"] if words else []))


def decoding(
    trace: Trace,
    layer: int | None = None,
    head: int | None = None,
    *,
    kind: str = "both",
    words: bool = False,
    alpha: float = 0.6,
    step: int = 1,
    shifted: bool = False,
    origin: str = "Recorded live",
) -> Exhibit:
    """Return both maps of the decoder, and the numbers of every step, as a figure.

    Args:
        layer, head: from 0; None is the mean over all.
        kind: the part that they belong to, "cross" or "decoder_self", or "both"; the other shows
            its mean.
        words: columns are whole words.
        alpha: exponent of the length penalty.
        step, shifted: where the offline player opens; `shifted` shows how the output becomes the
            input.
        origin: a note below the player.
    """
    of_layer, of_head = (None if at is None else at + 1 for at in (layer, head))
    place = PlayerPlace(step, of_layer, of_head, shifted, kind)
    cross, own = (
        combine(maps, "mean", *((layer, head) if kind in (part, "both") else ()))
        for part, maps in (("cross", trace.cross), ("decoder_self", trace.decoder_self))
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
    score = running / np.array([length_penalty(n, alpha) for n in steps.tolist()])
    entropy = nats_to_bits(trace.entropy)
    # A position cannot look at later ones: NaN marks "no weight", which is not a weight of 0.
    future = np.array(firsts)[None, :] > np.arange(n_steps)[:, None]
    rows, queries = query_labels(trace, "cross"), f"query: {READS_PREDICTS}"
    return Exhibit(
        name=stem(place, words=words),
        title="Where the decoder looks, step by step",
        caption=_caption(trace, words=words),
        parts=(
            Panel(
                "Cross-attention onto the source", cross, rows, sources, queries, "key: source",
            ),
            Panel(
                "Self-attention onto the prefix", np.where(future, np.nan, own),
                rows, keys, queries, "key: prefix",
            ),
            Series(
                "Translation, step by step", steps,
                {"log p so far": running, "score so far": score, "log p of the token":
                 trace.log_probs},
                "step", "nats",
            ),
            Series("Entropy of the next token", steps, {"entropy": entropy}, "step", "bits"),
        ),
        arrays={
            "cross": cross, "decoder_self": own, "reads": np.array(trace.tgt_tokens),
            "predicts": np.array(trace.predicted_tokens), "log_probs": trace.log_probs,
            "entropy": entropy, "running": running, "score": score,
        },
        facts=_facts(trace, layer, head, kind),
        offline=player_component(
            trace, place, words=words, alpha=alpha, steerable=False, origin=origin,
        ).offline(),
    )  # fmt: skip


def player_exhibit(trace: Trace, place: PlayerPlace, source: Source, *, words: bool) -> Exhibit:
    """Return the player's picture as a figure, with its program."""
    layer, head = (None if at is None else at - 1 for at in (place.layer, place.head))
    return source.of(
        decoding, trace, layer=layer, head=head, kind=place.kind, words=words,
        alpha=source.alpha, step=place.step, shifted=place.shifted, origin=origin_of(source.kind),
    )  # fmt: skip


def origin_of(kind: Kind) -> str:
    """Return the note below the player on where the maps come from, if no target was given."""
    return {
        "archive": "As recorded in the file",
        "huggingface": "One pass over the finished translation",
    }.get(kind, "Recorded live")


def why_no_player(trace: Trace) -> str | None:
    """Return a sentence naming what a recording lacks for the player; None if it lacks nothing."""
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


def layer_table(model: Translator, trace: Trace) -> tuple[Lens, list[tuple[str, ...]]]:
    """Return the decoder's distributions after every layer, and the top tokens [1 + Ld][T]."""
    found, spell = lens(model.model, trace, excluded=excluded(model.config)), model.tokenizer.target
    return found, [
        tuple(spell.shown((token,), before)[0]
              for token, before in zip(row, trace.tgt_ids, strict=True))
        for row in found.top_ids.tolist()
    ]  # fmt: skip


def layer_by_layer(model: Translator, trace: Trace) -> Exhibit:
    """Return the decoder's distribution after every layer, at every step, as a figure."""
    found, tokens = layer_table(model, trace)
    rows, names = query_labels(trace, "cross"), tuple(columns(len(tokens) - 1))
    top, own = np.exp(found.top_log_probs.T), np.exp(found.log_probs.T)  # [T, 1 + Ld]
    step = f"step: {READS_PREDICTS}"
    return Exhibit(
        name=file_stem("layer by layer"),
        title="The decoder's prediction after every layer",
        caption="The residual stream after each decoder layer, read as if it were the last (logit "
        "lens): the probability of the most probable token, and of the token predicted in the end.",
        parts=(
            Panel("Most probable token", top, rows, names, step, "read after", quantity="p"),
            Panel("Token predicted in the end", own, rows, names, step, "read after",
                  quantity="p"),
        ),
        arrays={
            "top_tokens": np.array(tokens), "top_ids": found.top_ids,
            "top_log_probs": found.top_log_probs, "ranks": found.ranks,
            "log_probs": found.log_probs,
        },
        facts=facts_of(trace),
        offline=layers_component(trace, found, tokens).offline(),
    )  # fmt: skip


def like_the_last(found: Sequence[Translation]) -> list[float]:
    """Return the similarity of each translation to the last: twice the tokens shared, of all."""
    last = found[-1].tokens
    return [
        1 - sum(map(len, not_shared(each.tokens, last))) / max(1, len(each.tokens) + len(last))
        for each in found
    ]


def earlier_layers(
    model: Translator, trace: Trace, progress: Progress | None = None
) -> list[Translation]:
    """Translate from the output of each encoder layer, searching as a trace's search did."""
    options: SearchOptions = {"progress": progress}
    if (search := trace.search) is None:
        return model.from_encoder_layers(trace.src_ids, **options)
    options |= {"prefix": trace.predicted_ids[: trace.n_forced], "sampling": search.sampling}
    return model.from_encoder_layers(trace.src_ids, search.beam_size, search.alpha, **options)


def from_encoder_layers(model: Translator, trace: Trace) -> Exhibit:
    """Return the translations from the output of each encoder layer as a figure."""
    found = earlier_layers(model, trace)
    last, shared = found[-1], np.ones((len(found), len(found[-1].tokens) + 1))
    for row, each in zip(shared, found, strict=True):
        row[[*not_shared(each.tokens, last.tokens)[1]]] = 0
        row[-1] = each.complete
    rows = tuple(f"layer {n}" for n in range(1, len(found) + 1))
    tokens, title = (*last.tokens, "</s>"), "Tokens of the finished translation"
    return Exhibit(
        name=file_stem("from encoder layers"),
        title="The translation from each encoder layer",
        caption="The decoder reads each encoder layer's output in turn, the later layers skipped "
        "(DecoderLens): the tokens that it shares with the finished translation, in their order.",
        parts=(Panel(title, shared, rows, tokens, "read from", "token", quantity="written"),),
        arrays={
            "texts": np.array([each.text for each in found]), "shared": shared,
            "log_probs": np.array([sum(each.log_probs) for each in found]),
        },
        facts=facts_of(trace),
    )  # fmt: skip


#: Parts whose effect is measured besides.
MEASURED = 3


class Share(NamedTuple):
    """A part's share in the difference of two logits."""

    name: str
    share: float
    lost: float | None = None  # what the difference loses without the part, if measured
    kind: str = ""
    #: layer, head: from 1; 0 for none
    layer: int = 0
    head: int = 0


def shares_of(
    model: Translator, trace: Trace, step: int, one: int, other: int
) -> tuple[float, list[Share]]:
    """Return the difference of two logits, and the parts' shares in it, the largest first."""
    found = logit_shares(model.model, trace, step, one, other)
    parts = parts_of(found)
    largest = [part for part, _ in parts[:MEASURED]]
    lost = [-each for each in changes_without(model.model, trace, found, largest)]
    token = plain_token(trace.tgt_tokens[step])
    names = {
        "decoder_self": "self-attention", "cross": "cross-attention", "bias": "biases",
        "feed_forward": "feed-forward", "embedding": f"embedding of {token}",
        "position": f"position {step + 1}",
    }  # fmt: skip
    rows = []
    for at, ((kind, *place), share) in enumerate(parts):
        layer, head = (0 if each is None else each + 1 for each in place)
        name = names[kind] + f" layer {layer}" * bool(layer) + f", head {head}" * bool(head)
        rows.append(Share(name, share, lost[at] if at < MEASURED else None, kind, layer, head))
    return found.difference, rows


def why_not(model: Translator, trace: Trace, step: int, one: int, other: int) -> Exhibit:
    """Return each part's share in the difference of two tokens' logits as a figure.

    Args:
        step: from 0.
        one, other: token ids; the difference is the logit of the first minus the second's.
    """
    difference, rows = shares_of(model, trace, step, one, other)
    spell, before = model.tokenizer.target.shown, trace.tgt_ids[step]
    first, second = (plain_token(spell((token,), before)[0]) for token in (one, other))
    lost = np.array([np.nan if row.lost is None else row.lost for row in rows])
    shares, shown = np.array([row.share for row in rows]), slice(0, 30)
    return Exhibit(
        name=file_stem("why", "step", step + 1, one, other),
        title=f"Why {first}, not {second}? Step {step + 1}",
        caption=f"The largest of {len(rows)} shares in the difference of the logits, "
        f"{difference:.3f}, LayerNorm's scales held at their values; and what the difference "
        "loses if a part is taken out, measured.",
        parts=(
            Series("Shares of the difference", tuple(map(_short, rows[shown])),
                   {"share": shares[shown], "lost without it": lost[shown]},
                   "part", "logit", "bar"),
        ),
        arrays={
            "names": np.array([row.name for row in rows]), "shares": shares, "lost": lost,
            "difference": np.array([difference]),
        },
        facts=facts_of(trace),
    )  # fmt: skip


def _short(row: Share) -> str:
    return re.sub("(-attention)? layer ", " ", row.name).replace(", head ", ".")


def _facts(trace: Trace, layer: int | None, head: int | None, kind: str) -> dict[str, str]:
    named = next((name for each, name in KIND_NAMES.items() if each == kind), "")
    part = f" of {named.lower()}" if named and (layer, head) != (None, None) else ""
    facts = facts_of(trace, cell_name((layer, head)) + part)
    return {"Translation": f"“{trace.text}”", **facts} if trace.text else facts


def _caption(trace: Trace, *, words: bool) -> str:
    how = "in one teacher-forced pass" if trace.forced else "as recorded while decoding"
    units = " Columns are words: the weights of their pieces added up." if words else ""
    given = ""
    if trace.n_forced and not trace.forced:
        given = f" The first {trace.n_forced} tokens were given."
    return f"Attention {how}; rows are queries, columns are keys.{units}{given}"
