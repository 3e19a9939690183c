"""Figures of Translate: the player, layer by layer, and shares in a choice."""

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from figures import labels
from figures.exhibit import Exhibit, Panel, Scale, Series, file_stem
from figures.labels import READS_PREDICTS, numbered, plain_token, query_labels
from transformer.checkpoint.reference import Kind
from transformer.measures.compare import not_shared
from transformer.measures.entropy import nats_to_bits
from transformer.measures.heads import combine
from transformer.measures.words import group_labels, merge, word_groups
from transformer.search.inputs import checked_whole
from transformer.search.records import Translation
from transformer.search.request import Progress, SearchOptions, excluded
from transformer.trace.lens import changes_without, lens, logit_shares
from transformer.trace.records import Lens, Trace
from transformer.translator import Translator
from transformer.types import AttentionKind
from transformer.worker.job import report
from ui.components.layers import columns, layers_component
from ui.components.player import PlayerPlace, player_component
from ui.export.programs import Source, facts_of

if TYPE_CHECKING:  # pages of stored traces are written without PyTorch
    from transformer.attribution.edges import Mix

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


def layer_table(model: Translator, trace: Trace) -> tuple[Lens, list[tuple[str, ...]]]:
    """Return the decoder's distributions after every layer, and top tokens [1 + Ld][T]."""
    result, spell = (
        lens(model.model, trace, excluded=excluded(model.config)),
        model.tokenizer.target,
    )
    return result, [
        tuple(spell.shown((token,), before)[0]
              for token, before in zip(row, trace.tgt_ids, strict=True))
        for row in result.top_ids.tolist()
    ]  # fmt: skip


def layer_by_layer(model: Translator, trace: Trace) -> Exhibit:
    """Return the decoder's distributions after every layer, at every step, as an exhibit."""
    result, tokens = layer_table(model, trace)
    rows, names = query_labels(trace, "cross"), tuple(columns(len(tokens) - 1))
    top, own = np.exp(result.top_log_probs.T), np.exp(result.log_probs.T)  # [T, 1 + Ld]
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
            "top_tokens": np.array(tokens), "top_ids": result.top_ids,
            "top_log_probs": result.top_log_probs, "ranks": result.ranks,
            "log_probs": result.log_probs,
        },
        facts=facts_of(trace),
        offline=layers_component(trace, result, tokens).offline(),
    )  # fmt: skip


def earlier_layers(
    model: Translator, trace: Trace, progress: Progress | None = None
) -> list[Translation]:
    """Translate from each encoder layer's output, with a trace's search settings."""
    options: SearchOptions = {"progress": progress}
    if (search := trace.search) is None:
        return model.from_encoder_layers(trace.src_ids, **options)
    options |= {"prefix": trace.predicted_ids[: trace.n_forced], "sampling": search.sampling}
    return model.from_encoder_layers(trace.src_ids, search.beam_size, search.alpha, **options)


def from_encoder_layers(model: Translator, trace: Trace) -> Exhibit:
    """Return translations from each encoder layer's output as an exhibit."""
    result = earlier_layers(model, trace)
    last, shared = result[-1], np.ones((len(result), len(result[-1].tokens) + 1))
    for row, translation in zip(shared, result, strict=True):
        row[[*not_shared(translation.tokens, last.tokens)[1]]] = 0
        row[-1] = translation.complete
    rows = tuple(f"layer {n}" for n in range(1, len(result) + 1))
    tokens, title = (*last.tokens, "</s>"), "Tokens of the finished translation"
    return Exhibit(
        name=file_stem("from encoder layers"),
        title="The translation from each encoder layer",
        caption="The decoder reads each encoder layer's output in turn, the later layers skipped "
        "(DecoderLens): the tokens that it shares with the finished translation, in their order.",
        parts=(Panel(title, shared, rows, tokens, "read from", "token", quantity="written"),),
        arrays={
            "texts": np.array([translation.text for translation in result]), "shared": shared,
            "log_probs": np.array([sum(translation.log_probs) for translation in result]),
        },
        facts=facts_of(trace),
    )  # fmt: skip


#: Parts whose effect is also measured.
MEASURED = 3


class Share(NamedTuple):
    """A part's share in the difference between two logits."""

    name: str
    share: float
    lost: float | None = None  # measured decrease without the part
    kind: str = ""
    #: layer, head: from 1, or 0
    layer: int = 0
    head: int = 0


def shares_of(
    model: Translator, trace: Trace, step: int, one: int, other: int
) -> tuple[float, list[Share]]:
    """Return the difference between two logits, and the parts' shares, largest first."""
    result = logit_shares(model.model, trace, step, one, other)
    largest = [part for part, _ in result.parts[:MEASURED]]
    lost = [-each for each in changes_without(model.model, trace, result, largest)]
    token = plain_token(trace.tgt_tokens[step])
    names = {
        "decoder_self": "self-attention", "cross": "cross-attention", "bias": "biases",
        "feed_forward": "feed-forward", "embedding": f"embedding of {token}",
        "position": f"position {step + 1}",
    }  # fmt: skip
    rows = []
    for at, (part, share) in enumerate(result.parts):
        kind = part.kind or part.name
        layer, head = (0 if each is None else each + 1 for each in (part.layer, part.head))
        name = names[kind] + f" layer {layer}" * bool(layer) + f", head {head}" * bool(head)
        rows.append(Share(name, share, lost[at] if at < MEASURED else None, kind, layer, head))
    return result.difference, rows


def why_not(model: Translator, trace: Trace, step: int, one: int, other: int) -> Exhibit:
    """Return the parts' shares in the difference between two logits as an exhibit.

    Args:
        step: from 0.
        one, other: token ids; the difference is the logit of the first minus the second's.
    """
    difference, rows = shares_of(model, trace, step, one, other)
    spell, before = model.tokenizer.target.shown, trace.tgt_ids[step]
    first, second = (plain_token(spell((token,), before)[0]) for token in (one, other))
    lost = np.array([np.nan if row.lost is None else row.lost for row in rows])
    shares, largest = np.array([row.share for row in rows]), slice(0, 30)
    short = tuple(re.sub("(-attention)? layer |, head ", ".", row.name) for row in rows[largest])
    return Exhibit(
        name=file_stem("why", "step", step + 1, one, other),
        title=f"Why {first}, not {second}? Step {step + 1}",
        caption=f"The largest of {len(rows)} shares in the difference of the logits, "
        f"{difference:.3f}, LayerNorm's scales held at their values; and what the difference "
        "loses if a part is taken out, measured.",
        parts=(
            Series("Shares of the difference", short,
                   {"share": shares[largest], "lost without it": lost[largest]},
                   "part", "logit", "bar"),
        ),
        arrays={
            "names": np.array([row.name for row in rows]), "shares": shares, "lost": lost,
            "difference": np.array([difference]),
        },
        facts=facts_of(trace),
    )  # fmt: skip


def mix_of(model: Translator, trace: Trace) -> "Mix":
    """Return the shares of source and prefix in every predicted token."""
    from transformer.attribution.edges import edges, mix

    return mix(edges(model.model, trace, "contribution", progress=report))


def source_or_prefix(model: Translator, trace: Trace) -> Exhibit:
    """Return the shares of source and prefix in every predicted token as an exhibit."""
    from transformer.attribution.edges import loose

    result = mix_of(model, trace)
    rows, steps = query_labels(trace, "cross"), numbered(trace.predicted_tokens)
    lines = {"source": result.source_share, "prefix": 1 - result.source_share}
    query = f"step: {READS_PREDICTS}"
    return Exhibit(
        name=file_stem("source or prefix"),
        title="Source or prefix, token by token",
        caption="The share of the source and of the translation so far in every predicted token "
        "(ALTI+, Ferrando et al. 2022). Shares compare tokens; they are not amounts.",
        parts=(
            Series("Source and prefix", steps, lines, "predicted token", "share"),
            Panel("Shares of source tokens", result.source, rows, trace.src_tokens, query,
                  "source", quantity="share"),
            Panel("Shares of earlier tokens", result.prefix, rows, trace.tgt_tokens, query,
                  "prefix", quantity="share"),
        ),
        arrays={
            "source": result.source, "prefix": result.prefix,
            "source_share": result.source_share, "loose": loose(result.source_share),
        },
        facts=facts_of(trace),
    )  # fmt: skip
