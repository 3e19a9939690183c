"""Three tours of attention: one look, many heads, and masks (section 3.2)."""

from __future__ import annotations

import numpy as np

from figures.labels import plain_token, query_labels
from transformer.measures.entropy import entropy_bits
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats
from ui.tours.stops import (
    Question,
    Scene,
    Settings,
    Stop,
    Tour,
    among,
    best,
    cell,
    counts,
    names,
    numbers,
    quarters,
    quoted,
    shown,
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


def _at_clear_step(scene: Scene) -> Settings:
    return {"step": str(clear_step(scene.trace) + 1), **cell(None, None)}


def _which_word(scene: Scene) -> Question:
    trace, t = scene.trace, clear_step(scene.trace)
    row = trace.cross.mean(axis=(0, 1))[t]
    right = int(row.argmax())
    ranking = [int(i) for i in np.argsort(-row)]
    options, answer = among(right, ranking, names(trace.src_tokens))
    return Question(
        f"The source is {quoted(trace.source)}. Written so far: {words(trace, t)}. "
        f"The decoder now writes **{quoted(shown(trace.predicted_tokens[t]))}**. "
        "Which source token does it look at most?",
        options,
        answer,
        f"At step {t + 1}, averaged over all layers and heads, {quoted(options[answer])} holds "
        f"{row[right]:.2f} of the weight. The weights of the step sum to {row.sum():.2f}.",
    )


def _sharpest(trace: Trace) -> tuple[int, int, int]:
    """(layer, head, step) of the largest cross-attention weight at the clear step."""
    t = clear_step(trace)
    layer, head = best(trace.cross[:, :, t].max(axis=-1))
    return layer, head, t


def _one_row(scene: Scene) -> Question:
    trace = scene.trace
    layer, head, t = _sharpest(trace)
    row = trace.cross[layer, head, t]
    options, answer = quarters(float(row.max()))
    return Question(
        f"Averaged, the look at {quoted(shown(trace.predicted_tokens[t]))} had a top weight of "
        f"{trace.cross.mean(axis=(0, 1))[t].max():.2f}. How large is it in the one head that looks "
        "most sharply?",
        options,
        answer,
        f"Head {head + 1} of layer {layer + 1} puts {row.max():.2f} on "
        f"{quoted(shown(trace.src_tokens[int(row.argmax())]))}. Its map is now the large one; look "
        f"at the row {quoted(plain_token(query_labels(trace, 'cross')[t], 24))}: what it reads, "
        "and what it predicts.",
    )


def unscaled(row: Floats, d_k: int) -> Floats:
    """Return the weights of a row if its scores were not divided by sqrt(d_k).

    Softmax forgets a constant, so the logarithms of the weights are the scores; multiplying them
    by sqrt(d_k) undoes the division (section 3.2.1).
    """
    scores = np.log(np.maximum(row.astype(np.float64), 1e-30)) * np.sqrt(d_k)
    exps = np.exp(scores - scores.max())
    weights: Floats = (exps / exps.sum()).astype(np.float32)
    return weights


def medium_row(trace: Trace) -> tuple[int, int, int]:
    """(layer, head, step) of the cross-attention row whose top weight is nearest to 0.4."""
    layer, head, t = best(-np.abs(trace.cross.max(axis=-1) - 0.4))
    return layer, head, t


def _without_scaling(scene: Scene) -> Question:
    trace = scene.trace
    layer, head, t = medium_row(trace)
    d_k = scene.config.d_k or scene.config.d_model // scene.config.n_heads
    row = trace.cross[layer, head, t]
    now, then = float(row.max()), float(unscaled(row, d_k).max())
    options, answer = numbers(then, [now, now / np.sqrt(d_k), (now + 1) / 2], "{:.2f}".format)
    return Question(
        f"Scores are divided by √d_k = √{d_k} ≈ {np.sqrt(d_k):.1f} before the softmax. In head "
        f"{head + 1} of layer {layer + 1}, at step {t + 1}, the top weight is {now:.2f}. "
        "What would it be without the division?",
        options,
        answer,
        f"Without it the scores lie {np.sqrt(d_k):.1f} times further apart, and the top "
        f"weight goes from {now:.2f} to {then:.2f}. A softmax that says almost 1 or 0 has "
        "hardly any gradient left to learn from; that is the paper's reason.",
    )


def _medium(scene: Scene) -> Settings:
    layer, head, t = medium_row(scene.trace)
    return {"query": str(t + 1), **cell(layer, head)}


ATTENTION = Tour(
    "attention",
    "Attention",
    "What it means that one token looks at others.",
    "3.2.1",
    ":material/visibility:",
    (
        Stop(
            "A look at the source",
            "To write the next token, the decoder gives each source token a **weight**. Weights "
            "are never negative and sum to 1. The light on the source shows them.",
            "3.2.1", "translate", _which_word, look=_at_clear_step,
        ),
        Stop(
            "One row, one query",
            "The position that reads the last token asks with a **query**; each source token has a "
            "**key**. The better they match, the larger the weight, and the more of that token's "
            "**value** is taken in. One row of a map is one query.",
            "3.2.1", "attention", _one_row, {"kind": "cross"},
            lambda scene: cell(*_sharpest(scene.trace)[:2]),
        ),
        Stop(
            "Why divide by √d_k",
            "A match is a dot product of two lists of d_k numbers, so it grows with their length. "
            "Dividing by √d_k keeps it in the range where the **softmax** (which turns scores into "
            "weights) can still hesitate.",
            "3.2.1", "head", _without_scaling, {"kind": "cross"}, _medium,
        ),
    ),
)  # fmt: skip


def _busy_token(trace: Trace) -> tuple[int, int]:
    """Return the source token whose heads in layer 1 look at most tokens, and their number."""
    tops = trace.encoder_self[0].argmax(axis=-1)  # [H, S]
    different = [len(set(tops[:, i])) for i in range(tops.shape[1])]
    token = int(np.argmax(different))
    return token, different[token]


def _how_many_places(scene: Scene) -> Question:
    trace = scene.trace
    n_heads = trace.encoder_self.shape[1]
    token, different = _busy_token(trace)
    options, answer = counts(different, 1, n_heads)
    tops = trace.encoder_self[0, :, token].argmax(axis=-1)
    labels = names(trace.src_tokens)
    looks = ", ".join(quoted(labels[int(top)]) for top in dict.fromkeys(tops.tolist()))
    return Question(
        f"Layer 1 of the encoder has {n_heads} head{'' if n_heads == 1 else 's'}. Take the token "
        f"{quoted(labels[token])} of {quoted(trace.source)}. At how many different tokens do "
        "its heads look most?",
        options,
        answer,
        f"Their favourites: {looks}. The average of the maps would show a bit of each."
        if n_heads > 1
        else f"A layer of this model has one head only, and it looks most at {looks}.",
    )


def offset_shares(maps: Floats) -> Floats:
    """Mean weight on the token before, the token itself and the token after. [L, H, 3]."""
    shares = [
        np.diagonal(maps, offset, axis1=-2, axis2=-1).sum(axis=-1) / maps.shape[-2]
        for offset in (-1, 0, 1)
    ]
    return np.stack(shares, axis=-1).astype(np.float32)


def _by_place(trace: Trace) -> tuple[int, int]:
    shares = offset_shares(trace.encoder_self)
    layer, head, _ = best(shares)
    return layer, head


def _which_offset(scene: Scene) -> Question:
    layer, head = _by_place(scene.trace)
    shares = offset_shares(scene.trace.encoder_self)[layer, head]
    options = ("the token before", "the token itself", "the token after")
    answer = int(shares.argmax())
    return Question(
        f"Some heads read by place, whatever the words are. Head {head + 1} of layer {layer + 1} "
        "is the clearest here. Where does it look from each token?",
        options,
        answer,
        f"On average {shares[answer]:.2f} of its weight lies on {options[answer]}"
        + (
            ": a bright line along the diagonal, or beside it. "
            if shares[answer] > 0.4
            else ". That is not much: this model has no strong habit of that kind here. "
        )
        + "One sentence shows it; a claim about the head would need many.",
    )


def _resting(trace: Trace) -> tuple[int, int, float]:
    """(layer, head, share) of the head with the most weight on the end mark."""
    ends = list(trace.src_special) or [trace.encoder_self.shape[-1] - 1]
    shares = trace.encoder_self[..., ends].sum(axis=-1).mean(axis=-1)  # [L, H]
    layer, head = best(shares)
    return layer, head, float(shares[layer, head])


def _share_on_the_end(scene: Scene) -> Question:
    layer, head, share = _resting(scene.trace)
    even = 1 / scene.trace.encoder_self.shape[-1]
    options, answer = quarters(share)
    return Question(
        f"Spread evenly, the end mark `</s>` would get {even:.2f} of the weight. How much does it "
        f"get in head {head + 1} of layer {layer + 1}, which gives it most?",
        options,
        answer,
        f"{share:.2f}, averaged over all tokens. Weights must sum to 1, so a head with nothing to "
        "look for has to put them somewhere, and a bright last column is often read that way. "
        + ("" if share > 3 * even else "Here it is faint. ")
        + "Try **Dim special tokens**.",
    )


def _spread(scene: Scene) -> Question:
    maps = scene.trace.encoder_self[-1]  # [H, S, S]
    alone, together = (float(entropy_bits(each).mean()) for each in (maps, maps.mean(axis=0)))
    near = abs(together - alone) < 0.05
    options = ("more spread out", "about the same", "sharper")
    return Question(
        "The last encoder layer: one map for each head, and their mean in the last column. "
        "Compared with the single heads, a row of the mean is …",
        options,
        1 if near else 0,
        f"The entropy of a row, a measure of spread, is {alone:.2f} bit for a single head and "
        f"{together:.2f} bit for the mean. A mean can never be sharper than its parts are on "
        "average, so it hides what single heads do."
        + (" Here there is one head only, and the mean is that one." if len(maps) == 1 else ""),
    )


HEADS = Tour(
    "heads",
    "Heads",
    "Why each layer looks several times at once.",
    "3.2.2",
    ":material/grid_view:",
    (
        Stop(
            "Many looks at once",
            "A **head** is one attention with its own small matrices for queries, keys and values. "
            "Heads of a layer work side by side, and their results are joined.",
            "3.2.2", "attention", _how_many_places,
            {"kind": "encoder_self", "layer": "1", "head": "mean"},
        ),
        Stop(
            "A head that reads by place",
            "What a head looks for was never told to it; training found it. Some heads have simple "
            "habits.",
            "3.2.2", "attention", _which_offset, {"kind": "encoder_self"},
            lambda scene: cell(*_by_place(scene.trace)),
        ),
        Stop(
            "A place to rest",
            "`</s>` is the end mark, a token like any other for attention.",
            "3.2.2", "attention", _share_on_the_end, {"kind": "encoder_self"},
            lambda scene: cell(*_resting(scene.trace)[:2]),
        ),
        Stop(
            "What a mean hides",
            "Pictures of attention often average all heads. The paper has heads so that the model "
            "can attend to different things at once, which “averaging inhibits”.",
            "3.2.2", "attention", _spread, {"kind": "encoder_self"},
            lambda scene: cell(len(scene.trace.encoder_self) - 1, None),
        ),
    ),
)  # fmt: skip


def _last_token(scene: Scene) -> Question:
    weights = scene.trace.encoder_self[:, :, 0]  # [L, H, S], the first token's rows
    seen = int((weights[0, 0] > 0).sum())
    total = weights.shape[-1]
    options, answer = numbers(seen, [1, total // 2, total], "{:.0f}".format)
    layer, head = best(weights[..., -1])
    return Question(
        f"{quoted(scene.trace.source)} has {total} tokens. How many of them may the **first** "
        "token look at?",
        options,
        answer,
        f"All {seen} have some weight, also those that come later. Most on the last one: "
        f"{weights[layer, head, -1]:.2f}, in head {head + 1} of layer {layer + 1}.",
    )


def _first_row(scene: Scene) -> Question:
    weight = float(scene.trace.decoder_self[:, :, 0, 0].min())
    total = scene.trace.decoder_self.shape[-1]
    options, answer = numbers(weight, [1 / max(total, 2), 0.5, 0.0], "{:.2f}".format)
    return Question(
        "The first row of the decoder's self-attention belongs to the start mark `<s>`. How much "
        "weight does it put on itself?",
        options,
        answer,
        f"Exactly {weight:.2f} in every head: nothing else is there to see. Before the softmax, "
        "the scores of later tokens are set to −∞, so their weights are exactly 0.",
    )


def _how_many_masked(scene: Scene) -> Question:
    total = scene.trace.decoder_self.shape[-1]
    above = np.triu(np.ones((total, total), dtype=bool), 1)
    hidden = int((scene.trace.decoder_self[0, 0][above] == 0).sum())
    options, answer = numbers(
        hidden, [total * (total + 1) // 2, total * total, total], "{:.0f}".format
    )
    return Question(
        f"The map has {total} rows and {total} columns, {total * total} cells. How many are "
        "masked?",
        options,
        answer,
        f"{hidden} = {total} · {total - 1} / 2: all cells above the diagonal, marked with dots. So "
        "a whole sentence can be trained on at once without a token seeing the one it must guess.",
    )


def _cross_open(scene: Scene) -> Question:
    row = scene.trace.cross[0, 0, 0]
    seen, total = int((row > 0).sum()), len(row)
    options, answer = numbers(seen, [1, total // 2, total, 0], "{:.0f}".format)
    return Question(
        f"The first target token is written while nothing else is. How many of the {total} source "
        "tokens may it look at?",
        options,
        answer,
        "The source was read in full before the first token is written, so this attention needs no "
        "mask.",
    )


def _kind(kind: AttentionKind) -> Settings:
    return {"kind": kind, **cell(0, 0)}


MASKS = Tour(
    "masks",
    "Masks",
    "Who may look at whom, in the three places where attention is used.",
    "3.2.3",
    ":material/visibility_off:",
    (
        Stop(
            "The encoder sees everything",
            "In **encoder self-attention**, source tokens look at source tokens. The sentence is "
            "there from the start, so nothing is hidden.",
            "3.2.3", "attention", _last_token, _kind("encoder_self"),
        ),
        Stop(
            "The decoder sees the past",
            "In **decoder self-attention**, tokens of the translation look at themselves and at "
            "those before. A **mask** forbids the rest.",
            "3.2.3", "attention", _first_row, _kind("decoder_self"),
        ),
        Stop(
            "Half the map is missing",
            "Dots mark what is masked. While translating, those tokens do not exist yet; in "
            "training they do, and the mask hides them.",
            "3.2.3", "attention", _how_many_masked, _kind("decoder_self"),
        ),
        Stop(
            "Across, nothing is hidden",
            "In **cross-attention**, the translation asks and the source answers: queries from the "
            "decoder, keys and values from the encoder.",
            "3.2.3", "attention", _cross_open, _kind("cross"),
        ),
    ),
)  # fmt: skip
