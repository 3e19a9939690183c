"""Predictions of the decoder's early layers, and the parts of a choice between two tokens.

`lens` reads the residual stream after every layer like the last one (the logit lens of
nostalgebraist, 2020). `later_layers_skipped` gives the edits for a translation from an earlier
encoder layer (DecoderLens, Langedijk et al. 2024). `logit_shares` computes the contribution of all
decoder parts to a choice, and `changes_without` measures the choice without a part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer.edits.language import Edit
from transformer.edits.model import Skipped
from transformer.hooks import BLOCKS, Hook, Record, Replace, Site
from transformer.layers import Residual
from transformer.model import Transformer
from transformer.search.scoring import normalised
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.parts import Part, parts_before, read, without
from transformer.trace.records import Lens, Trace


@dataclass(frozen=True, eq=False)
class LogitShares:
    """Shares of the decoder's parts in the difference of two tokens' logits at one step.

    With the scales of all LayerNorms fixed, the rest of the decoder is linear in the outputs of
    heads and networks, and all shares add up to the difference.
    """

    step: int  # 0-based
    ids: tuple[int, int]  # the second token's logit is subtracted
    difference: float
    parts: list[tuple[Part, float]]  # largest magnitude first; "bias" are all but the networks'


def lens(model: Transformer, trace: Trace, *, excluded: Sequence[int] = ()) -> Lens:
    """Return the distribution after every decoder layer, at every step of a trace.

    Args: excluded: ids without probability, as in the search.
    """
    config = model.config
    last = config.n_decoder_layers - 1
    sites = [Site("decoder", None, "embedding", "hidden")]
    sites += [Site("decoder", n, "feed_forward", "hidden") for n in range(last + 1)]
    record = read(model, trace, Record(sites))
    rows = []
    with torch.inference_mode():
        ids = torch.tensor(trace.predicted_ids, device=model.generator.weight.device)[:, None]
        for site in sites:
            logits = model.logits(model.decoder_norm(record[site]))[0]  # [T, V]
            log_probs = normalised(logits, excluded)
            top, top_ids = log_probs.max(-1)
            own = log_probs.gather(1, ids)  # [T, 1]
            ranks = 1 + (log_probs > own).sum(-1)
            rows.append((top_ids.cpu().numpy(), to_array(top), ranks.cpu().numpy(),
                         to_array(own[:, 0])))  # fmt: skip
    return Lens(*map(np.stack, zip(*rows, strict=True)))


def later_layers_skipped(depth: int, n_layers: int) -> tuple[Edit, ...]:
    """Return the edits that skip all but the first `depth` of `n_layers` encoder layers."""
    return tuple(Edit("skip", "encoder", layer) for layer in range(depth, n_layers))


def logit_shares(model: Transformer, trace: Trace, step: int, one: int, other: int) -> LogitShares:
    """Return the shares of all parts in the difference of two logits, `one` minus `other`.

    Args: step: 0-based step of the prediction.

    Raises: `ValueError` for a step or token out of range.
    """
    check_place("step", step, len(trace.tgt_ids))
    for token in (one, other):
        check_place("token", int(token), model.config.target_vocab_size)
    record = read(model, trace, Record(lambda site: site.name in ("heads", "output", "hidden")))
    final, generator = Site("decoder", None, "final", "hidden"), model.generator
    with torch.inference_mode():
        reads = generator.weight[one].double() - generator.weight[other].double()
        parts = {
            part: float(reads @ vector)
            for part, vector in parts_before(model, trace, record, final, step).items()
        }
        if generator.bias is not None:
            bias = generator.bias[one].double() - generator.bias[other].double()
            parts[Part("decoder", "bias")] += float(bias)
        logits = model.logits(record[final][0, step]).double()
    largest = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return LogitShares(step, (one, other), float(logits[one] - logits[other]), largest)


def changes_without(
    model: Transformer, trace: Trace, shares: LogitShares, parts: Sequence[Part]
) -> list[float]:
    """Return the measured change in the difference of two logits without each part.

    One pass per part also changes all that follows it, including LayerNorms. Removed heads and
    networks output 0 at every step, as with the edits `off` and `ffn off`; an embedding or position
    is removed at the step of the shares only, and "bias" removes the biases of that share.
    """
    one, other = shares.ids
    final, bias = Site("decoder", None, "final", "hidden"), model.generator.bias

    def difference(part: Part | None) -> float:
        taken = None if part is None else _without(model, trace, shares.step, part)
        hidden = read(model, trace, Record([final]), taken)[final][0, shares.step]
        with torch.inference_mode():
            logits = model.logits(hidden).double()
            if part is not None and part.name == "bias" and bias is not None:
                logits -= bias.double()
        return float(logits[one] - logits[other])

    before = difference(None)
    return [difference(part) - before for part in parts]


def _without(model: Transformer, trace: Trace, step: int, part: Part) -> Hook:
    """Return the hook that removes a part, except for the output projection's bias."""
    if part.name == "bias":
        return Replace({site: bias.neg().add for site, bias in _biases(model).items()})
    return without(model, trace, part, step)


def _biases(model: Transformer) -> dict[Site, Tensor]:
    """Return the decoder's biases outside networks, by the value that they are added to."""
    biases = {Site("decoder", None, "final", "hidden"): getattr(model.decoder_norm, "bias", None)}
    for n, layer in enumerate(model.decoder):
        for block in BLOCKS["decoder"]:
            around: Residual = getattr(layer, f"around_{block}")
            if isinstance(around, Skipped):
                continue
            if not around.pre:
                biases[Site("decoder", n, block, "hidden")] = around.norm.bias
            if block != "feed_forward":
                w_o = getattr(layer, f"{block}_attention").w_o
                biases[Site("decoder", n, block, "output")] = w_o.bias
    return {site: bias for site, bias in biases.items() if bias is not None}
