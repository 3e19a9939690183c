"""The mean output of every head over sentences, which `mean` puts in the output's place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from transformer.edits.model import Means
from transformer.errors import InputError
from transformer.hooks import Hooks, Site
from transformer.model import Transformer
from transformer.types import AttentionKind, Report


class _Sums(Hooks):
    """Adds up what heads put out, over the positions of one sentence at a time."""

    def __init__(self) -> None:
        self.sums: dict[tuple[AttentionKind, int], Tensor] = {}
        self.counts: dict[tuple[AttentionKind, int], int] = {}

    def wants(self, site: Site) -> bool:
        return site.name == "heads"

    def __call__(self, site: Site, value: Tensor) -> None:
        assert site.kind is not None and site.layer is not None
        place = site.kind, site.layer
        total = value[0].sum(1, dtype=torch.float64)  # [H, d_v]
        self.sums[place] = self.sums[place] + total if place in self.sums else total
        self.counts[place] = self.counts.get(place, 0) + value.size(2)


def head_means(
    model: Transformer,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    progress: Report | None = None,
) -> Means:
    """Return each head's mean output over all positions of sentences and their translations.

    Args:
        pairs: source ids, with `</s>`, and what the decoder reads: the start token and all of the
            translation but its last token, as in a trace's `src_ids` and `tgt_ids`.
        progress: called with (sentences done, sentences in all); may raise to stop.

    Returns: [H, d_v] by (kind, layer).

    Raises: `InputError` without sentences.
    """
    if not pairs:
        raise InputError("the mean of a head needs at least one sentence")
    sums, device = _Sums(), model.generator.weight.device
    with torch.inference_mode():
        for done, (src, tgt_in) in enumerate(pairs, 1):
            encoded = model.encode(torch.tensor([list(src)], device=device), hooks=sums)
            model.decode(torch.tensor([list(tgt_in)], device=device), encoded, hooks=sums)
            if progress is not None:
                progress(done, len(pairs))
    return {place: (sums.sums[place] / sums.counts[place]).float() for place in sums.sums}
