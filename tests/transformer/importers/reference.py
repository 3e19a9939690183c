"""Transformers of other libraries, computed from their own tensors and names.

Nothing here is shared with the project's model: plain functions of `torch.nn.functional`, written
down from the published definitions of fairseq and JoeyNMT.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.search.beam import StepOutput

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "swish": F.silu,
}  # fmt: skip


@dataclass
class Passed:
    """Result of a pass: states [B, S, d], logits [B, T, V], maps [L, B, H, n, m]."""

    memory: Tensor
    logits: Tensor
    encoder_self: Tensor
    decoder_self: Tensor
    cross: Tensor


@dataclass
class Reference:
    """A model as its library computes it."""

    tensors: Mapping[str, Tensor]  # by the library's names
    heads: tuple[int, int]  # of encoder and decoder
    depths: tuple[int, int]  # the same
    #: of the parts of a layer: "self", "cross", "q", "k", "v", "out" and so on
    names: Mapping[str, str]
    #: (encoder or decoder, length) to the vectors added, [length, d]
    positions: Callable[[str, int], Tensor]
    scale: float  # of the embeddings
    pre: bool
    activation: str
    eps: float
    pad: int
    start: int
    maps: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, src: Tensor, tgt_in: Tensor) -> Passed:
        """src [B, S] and tgt_in [B, T], padded at the end."""
        self.maps = {"encoder": [], "decoder": [], "cross": []}
        seen = (src != self.pad)[:, None, None, :]
        memory = self._stack(src, "encoder", seen)
        ahead = torch.ones(tgt_in.size(1), tgt_in.size(1), dtype=torch.bool).tril()
        hidden = self._stack(tgt_in, "decoder", ahead, (memory, seen))
        logits = F.linear(hidden, self.tensors[self.names["output"]])
        return Passed(memory, logits, *(torch.stack(self.maps[each]) for each in self.maps))

    def _stack(
        self, tokens: Tensor, stack: str, mask: Tensor, source: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        x = self.tensors[self.names[f"{stack} embedding"]][tokens] * self.scale
        x = x + self.positions(stack, tokens.size(1))
        for layer in range(self.depths[stack == "decoder"]):
            at = f"{self.names[stack]}.{layer}"
            for part in (f"{stack} self", "cross", "feed") if source else (f"{stack} self", "feed"):
                norm = f"{at}.{self.names[f'{part} norm']}"
                y = self._norm(x, norm) if self.pre else x
                if part == "feed":
                    inner = self._linear(y, f"{at}.{self.names['first']}")
                    y = self._linear(
                        ACTIVATIONS[self.activation](inner), f"{at}.{self.names['second']}"
                    )
                else:
                    keys, seen = source if source and part == "cross" else (y, mask)
                    kind = part.removesuffix(" self")
                    y = self._attend(y, keys, f"{at}.{self.names[part]}", seen, kind)
                x = x + y if self.pre else self._norm(x + y, norm)
        return self._norm(x, f"{stack}.layer_norm") if self.pre else x

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self.eps)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def _attend(self, x: Tensor, y: Tensor, at: str, mask: Tensor, kind: str) -> Tensor:
        n_heads = self.heads[0] if kind == "encoder" else self.heads[1]
        q, k, v = (self._projected(each, at, part).unflatten(2, (n_heads, -1)).transpose(1, 2)
                   for each, part in ((x, "q"), (y, "k"), (y, "v")))  # fmt: skip
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
        weights = scores.masked_fill(~mask, -torch.inf).softmax(3)
        self.maps[kind].append(weights)
        return self._linear((weights @ v).transpose(1, 2).flatten(2), f"{at}.{self.names['out']}")

    def _projected(self, x: Tensor, at: str, part: str) -> Tensor:
        fused = f"{at}.in_proj_weight"
        if fused not in self.tensors:
            return self._linear(x, f"{at}.{self.names[part]}")
        third = "qkv".index(part)
        weight = self.tensors[fused].chunk(3)[third]
        return F.linear(x, weight, self.tensors[f"{at}.in_proj_bias"].chunk(3)[third])

    def greedy(self, src: Sequence[int], eos: int, length: int, never: Sequence[int]) -> list[int]:
        """The most probable token at each step."""
        ids = [self.start]
        while len(ids) <= length and (len(ids) == 1 or ids[-1] != eos):
            logits = self(torch.tensor([src]), torch.tensor([ids])).logits[0, -1]
            logits[[*never]] = -torch.inf
            ids.append(int(logits.argmax()))
        return ids[1:]


@dataclass
class Stepping:
    """A step function that recomputes every prefix from its start."""

    model: Reference
    src: list[int]
    prefixes: list[list[int]] = field(default_factory=lambda: [[]])

    def __call__(self, tokens: list[int], parents: list[int] | None) -> StepOutput:
        rows = range(len(tokens)) if parents is None else parents
        self.prefixes = [
            [*self.prefixes[row], token] for row, token in zip(rows, tokens, strict=True)
        ]
        src = torch.tensor([self.src] * len(tokens))
        return StepOutput(self.model(src, torch.tensor(self.prefixes)).logits[:, -1])


def drawn(shapes: Mapping[str, Sequence[int]], seed: int) -> dict[str, Tensor]:
    """Draw weights wide enough that attention and predictions are far from uniform."""
    made: dict[str, Tensor] = {}
    draw = torch.Generator().manual_seed(seed)
    for name, shape in shapes.items():
        if len(shape) == 2:
            made[name] = torch.randn(*shape, generator=draw) * 1.5 * shape[1] ** -0.5
        else:
            norm = "norm" in name and name.endswith("weight")
            made[name] = torch.randn(*shape, generator=draw) * 0.2 + float(norm)
    return made


def learned_merges(words: Mapping[str, int], count: int) -> list[tuple[str, str]]:
    """Learn byte-pair merges as in Sennrich et al. (2016)."""
    cut = {word: [*word[:-1], word[-1] + "</w>"] for word in words}
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: dict[tuple[str, str], int] = {}
        for word, symbols in cut.items():
            for pair in pairwise(symbols):
                pairs[pair] = pairs.get(pair, 0) + words[word]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for word, symbols in cut.items():
            joined: list[str] = []
            for symbol in symbols:
                if joined and (joined[-1], symbol) == best:
                    joined[-1] += symbol
                else:
                    joined.append(symbol)
            cut[word] = joined
    return merges
