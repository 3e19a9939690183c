"""Edits as plain hooks on the original model, a reference for edited models."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from transformer.edits.language import KINDS, Edit, parse_edits
from transformer.edits.model import Means
from transformer.hooks import Hooks, Site
from transformer.model import Transformer
from transformer.steps import StepOutput

#: Sentences and translations without padding, of unequal lengths.
PAIRS = [([5, 9, 7, 12, 21, 2], [1, 6, 11]), ([14, 8, 2], [1, 17, 4, 9])]


class PlainEdits(Hooks):
    """Edits on a model that reads one unpadded sentence without a cache."""

    def __init__(
        self, model: Transformer, edits: str | Sequence[Edit], means: Means | None = None
    ) -> None:
        self.model, self.edits, self.means = model, parse_edits(edits), means
        self.seen: dict[Site, Tensor] = {}

    def of(self, verb: str, site: Site) -> list[Edit]:
        return [
            edit for edit in self.edits
            if edit.verb == verb and edit.layer in (None, site.layer)
            and (edit.where is None or (
                KINDS[edit.where] == site.kind if edit.of_heads else edit.where == site.stack
            ))
        ]  # fmt: skip

    def heads(self, verb: str, site: Site, n_heads: int) -> list[int]:
        chosen = {edit.index for edit in self.of(verb, site)}
        return [head for head in range(n_heads) if chosen & {None, head}]

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        value = getattr(self, f"at_{site.name}", lambda site, value: value)(site, value.clone())
        self.seen[site] = value
        return value

    def at_hidden(self, site: Site, value: Tensor) -> Tensor:
        if site.block == "embedding":
            return self.embedded(site, value)
        if site.block == "final":
            return value
        around = getattr(getattr(self.model, site.stack)[site.layer], f"around_{site.block}")
        if self.of("skip", site):
            return self.before(site)
        if self.of("no residual", site):
            output = self.seen[site._replace(name="output")]
            return output if self.model.config.norm == "pre" else around.norm(output)
        return value

    def before(self, site: Site) -> Tensor:
        """Return the residual stream before a block."""
        blocks = ["self", "feed_forward"] if site.stack == "encoder" else [
            "self", "cross", "feed_forward"]  # fmt: skip
        at = blocks.index(site.block)
        if at:
            return self.seen[site._replace(block=blocks[at - 1])]
        if site.layer:
            return self.seen[site._replace(layer=site.layer - 1, block="feed_forward")]
        return self.seen[Site(site.stack, None, "embedding", "hidden")]

    def embedded(self, site: Site, value: Tensor) -> Tensor:
        positions = getattr(self.model, "src_positions" if site.stack == "encoder" else
                            "tgt_positions")  # fmt: skip
        n = value.size(1)
        shift = int(sum(edit.value or 0 for edit in self.edits if edit.verb == "shift positions"))
        bare = value - positions(0, n)
        return bare if self.of("no positions", site) else bare + positions(shift, n)

    def projected(self, site: Site, value: Tensor) -> Tensor:
        """Swap the projections of queries and keys."""
        block = self.model.attention_block(site.kind, site.layer)
        x, matrix = self.seen[site._replace(name="input")], block.w_k
        if site.name == "k":
            matrix = block.w_q
            if site.kind == "cross":
                x = self.seen[Site("encoder", None, "final", "hidden")]
        other = matrix(x).view(*x.shape[:2], block.n_heads, -1).transpose(1, 2)
        heads = self.heads("swap qk", site, block.n_heads)
        value[:, heads] = other[:, heads]
        return value

    at_q = at_k = projected

    def at_scores(self, site: Site, value: Tensor) -> Tensor:
        q, k = (self.seen[site._replace(name=name)] for name in ("q", "k"))
        products = q @ k.mT / math.sqrt(q.size(-1))
        wide = self.heads("no scaling", site, q.size(1))
        relative = self.model.distances(site.kind, q.size(2), k.size(2))
        products[:, wide] *= math.sqrt(q.size(-1))
        stack = site._replace(block="embedding")
        if relative is not None and not self.of("no positions", stack):
            products = products + relative
        products[:, self.heads("uniform", site, q.size(1))] = 0
        return products

    def at_weights(self, site: Site, value: Tensor) -> Tensor:
        scores = self.seen[site._replace(name="scores")]
        n, m = scores.shape[2:]
        allowed = torch.ones_like(scores, dtype=torch.bool)
        if site.kind == "decoder_self" and not self.of("no mask", site._replace(block="self")):
            allowed = allowed & (torch.arange(m) <= torch.arange(n)[:, None])
        for edit in self.of("cut", site):
            for head in range(scores.size(1)) if edit.index is None else [edit.index]:
                for query in range(n) if edit.query is None else [edit.query]:
                    for key in range(m) if edit.key is None else [edit.key]:
                        if query < n and key < m:
                            allowed[:, head, query, key] = False
        largest = scores.masked_fill(~allowed, -1e30).amax(-1, keepdim=True)
        raised = torch.where(allowed, (scores - largest).exp(), 0.0)
        return raised / raised.sum(-1, keepdim=True).clamp(min=1e-30)

    def at_heads(self, site: Site, value: Tensor) -> Tensor:
        for head in self.heads("mean", site, value.size(1)):
            value[:, head] = self.means[site.kind, site.layer][head]
        for edit in self.of("off", site) + self.of("scale", site):
            heads = slice(None) if edit.index is None else edit.index
            value[:, heads] *= edit.value or 0.0
        return value

    def at_inner(self, site: Site, value: Tensor) -> Tensor:
        for edit in self.of("neuron", site):
            value[..., edit.index] = edit.value
        return value

    def at_output(self, site: Site, value: Tensor) -> Tensor:
        off = site.block == "feed_forward" and self.of("ffn off", site)
        return torch.zeros_like(value) if off else value


class PlainSteps:
    """A plain step function that reads each prefix from its start."""

    def __init__(
        self, model: Transformer, src: Sequence[Sequence[int]], hooks: Hooks | None = None
    ) -> None:
        self.model, self.hooks = model, hooks
        self.src = [torch.tensor([ids]) for ids in src]
        self.rows: list[tuple[int, list[int]]] = [(at, []) for at in range(len(src))]

    def __call__(self, tokens: Sequence[int], parents: Sequence[int] | None) -> StepOutput:
        if parents is not None:
            self.rows = [self.rows[parent] for parent in parents]
        self.rows = [
            (sentence, [*prefix, token])
            for (sentence, prefix), token in zip(self.rows, tokens, strict=True)
        ]
        logits, own, cross = [], [], []
        width = max(src.size(1) for src in self.src)
        for sentence, prefix in self.rows:
            encoded = self.model.encode(self.src[sentence], hooks=self.hooks)
            decoded = self.model.decode(
                torch.tensor([prefix]), encoded, need_weights=True, hooks=self.hooks
            )
            logits.append(self.model.logits(decoded.hidden[0, -1]))
            own.append(decoded.self_attention[:, 0, :, -1])  # [Ld, H, t]
            seen = decoded.cross_attention[:, 0, :, -1]
            cross.append(torch.nn.functional.pad(seen, (0, width - seen.size(-1))))
        return StepOutput(torch.stack(logits), torch.stack(own, 1), torch.stack(cross, 1))
