"""Hooks: read or replace any value inside the model while it runs.

`Transformer.encode` and `decode` take one `Hooks` object, or None. At every `Site` that the hooks
want, the forward pass hands over the value and goes on with what comes back:

    gates = HeadGates.of(model.config, {("cross", 1, 0): 0.0})      # ablate one head
    record = Record(matching(stack="decoder", name="hidden"))       # keep every hidden state
    hooks = Chain(gates, record)
    decoded = model.decode(tgt_in, model.encode(src, hooks=hooks), hooks=hooks)
    record[Site("decoder", 2, "cross", "hidden")]                   # [B, T, d_model]

Values stay in the autograd graph, so that gradients flow through gates and records. With a cache,
every call of `decode` visits the sites again: T is the number of new positions and keys are all
positions so far.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from transformer.config import ModelConfig
from transformer.types import AttentionKind, checked_kind

Stack = Literal["encoder", "decoder"]
Block = Literal["embedding", "self", "cross", "feed_forward", "final"]
Name = Literal[
    "input", "q", "k", "v", "scores", "weights", "heads", "inner", "output", "hidden",
]  # fmt: skip

#: The blocks of a layer, in their order.
BLOCKS: dict[Stack, tuple[Literal["self", "cross", "feed_forward"], ...]] = {
    "encoder": ("self", "feed_forward"),
    "decoder": ("self", "cross", "feed_forward"),
}

_ATTENTION: tuple[Name, ...] = (
    "input", "q", "k", "v", "scores", "weights", "heads", "output", "hidden",
)  # fmt: skip
_FEED_FORWARD: tuple[Name, ...] = ("input", "inner", "output", "hidden")


class Site(NamedTuple):
    """A place in the model that hooks may read and write.

    Attributes:
        stack: "encoder" or "decoder".
        layer: 0-based; None for the blocks "embedding" and "final".
        block: "embedding", "self", "cross" (decoder only), "feed_forward" or "final".
        name: which value, in the order in which a block visits them:

            input    [B, T, d_model]  what the block reads: the residual stream, after LayerNorm in
                                      a pre-norm model
            q        [B, H, T, d_k]   queries (attention only, as are the next five)
            k        [B, H, S, d_k]   keys
            v        [B, H, S, d_v]   values
            scores   [B, H, T, S]     q k^T / sqrt(d_k), before the mask, with what relative
                                      positions add
            weights  [B, H, T, S]     their softmax under the mask, before dropout
            heads    [B, H, T, d_v]   the heads' outputs, before W_O
            inner    [B, T, d_ff]     the activations (feed-forward only)
            output   [B, T, d_model]  what the block adds to the residual stream, before dropout
            hidden   [B, T, d_model]  the residual stream behind the block, after LayerNorm in a
                                      post-norm model; the only value of "embedding" (what enters
                                      the first layer) and "final" (what leaves the stack)
    """

    stack: Stack
    layer: int | None
    block: Block
    name: Name

    @classmethod
    def of(cls, kind: AttentionKind, layer: int, name: Name) -> Site:
        """Return a site of the attention block that makes the maps of one kind."""
        stack: Stack = "encoder" if checked_kind(kind) == "encoder_self" else "decoder"
        return cls(stack, layer, "cross" if kind == "cross" else "self", name)

    @property
    def kind(self) -> AttentionKind | None:
        """The kind of attention of this block, or None if it has none."""
        if self.block == "self":
            return "encoder_self" if self.stack == "encoder" else "decoder_self"
        return "cross" if self.block == "cross" else None


def sites(config: ModelConfig) -> tuple[Site, ...]:
    """Every site of a model, in the order in which `encode` and then `decode` visit them."""
    depths = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    found = []
    for stack in get_args(Stack):
        found.append(Site(stack, None, "embedding", "hidden"))
        found += [
            Site(stack, layer, block, name)
            for layer in range(depths[stack])
            for block in BLOCKS[stack]
            for name in (_FEED_FORWARD if block == "feed_forward" else _ATTENTION)
        ]
        found.append(Site(stack, None, "final", "hidden"))
    return tuple(found)


Wanted = Collection[Site] | Callable[[Site], bool]


def matching(
    *,
    stack: Stack | None = None,
    layer: int | None = None,
    block: Block | None = None,
    name: Name | None = None,
) -> Callable[[Site], bool]:
    """Return a test for sites that have all the given fields."""
    given = {"stack": stack, "layer": layer, "block": block, "name": name}
    fields = {field: value for field, value in given.items() if value is not None}
    return lambda site: all(getattr(site, field) == value for field, value in fields.items())


class Hooks:
    """Base class: reads or replaces values at the sites that it wants."""

    def wants(self, site: Site) -> bool:
        """Return True to receive values at this site.

        Attention computes its weights explicitly where "scores" or "weights" are wanted, and
        otherwise runs PyTorch's fused kernel.
        """
        return True

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Return the value with which the forward pass continues, of the same shape."""
        return value


class Chain(Hooks):
    """Several hooks, each given what the one before it returned."""

    def __init__(self, *hooks: Hooks | None) -> None:
        """Args: hooks: None is skipped."""
        self.hooks = tuple(each for each in hooks if each is not None)

    def wants(self, site: Site) -> bool:
        """Return True if any of the hooks does."""
        return any(each.wants(site) for each in self.hooks)

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Return what the last of them returns."""
        for each in self.hooks:
            if each.wants(site):
                value = each(site, value)
        return value


class Complete(Exception):  # noqa: N818 - as StopIteration, this is no error
    """Raised by `Record(..., stop=True)` when it has every site, to end the forward pass."""


class Record(Hooks):
    """Keeps the values at some sites.

    `record[site]` is the latest value and `record.values[site]` the list of all, one per visit.
    """

    def __init__(self, wanted: Wanted, *, stop: bool = False) -> None:
        """Record sites.

        Args:
            wanted: sites, or a test such as `matching` returns.
            stop: raise `Complete` as soon as each of the `wanted` sites has been visited, so that
                the rest of the model does not run.
        """
        if stop and callable(wanted):
            raise TypeError("stop=True needs a collection of sites, not a test")
        self._wanted = wanted if callable(wanted) else frozenset(wanted)
        self._stop = stop
        self.values: dict[Site, list[Tensor]] = {}

    def wants(self, site: Site) -> bool:
        """Return True for recorded sites."""
        return self._wanted(site) if callable(self._wanted) else site in self._wanted

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Keep the value and return it as it is."""
        self.values.setdefault(site, []).append(value)
        if self._stop and not callable(self._wanted) and len(self.values) == len(self._wanted):
            raise Complete
        return value

    def __getitem__(self, site: Site) -> Tensor:
        """Return the latest value. Raises `KeyError` for a site that was not visited."""
        return self.values[site][-1]

    def layers(self, kind: AttentionKind, name: Name = "weights") -> Tensor:
        """Stack the latest values of one kind of attention over layers: [L, ...]."""
        matches = (site for site in self.values if site.kind == kind and site.name == name)
        return torch.stack([self[site] for site in sorted(matches)])


class Replace(Hooks):
    """Puts other values in place of some: a tensor of the same shape, or a function of the value.

    uniform = Replace({Site("decoder", 1, "cross", "weights"): lambda w: w * 0 + 1 / w.size(-1)})
    """

    def __init__(self, values: Mapping[Site, Tensor | Callable[[Tensor], Tensor]]) -> None:
        self.values = dict(values)

    def wants(self, site: Site) -> bool:
        """Return True for sites with a replacement."""
        return site in self.values

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Return the replacement."""
        other = self.values[site]
        return other.to(value) if isinstance(other, Tensor) else other(value)


@dataclass(frozen=True, eq=False)
class HeadGates(Hooks):
    """Multiplies every head's output by a factor, before W_O; None is all ones.

    A gate of 1 changes nothing, 0 ablates the head. A table may also hold factors for every row of
    the batch, [L, B, H]; one batch then tries many ablations at once.
    """

    encoder_self: Tensor | None = None  # [Le, H]
    decoder_self: Tensor | None = None  # [Ld, H]
    cross: Tensor | None = None  # [Ld, H]

    @classmethod
    def of(
        cls, config: ModelConfig, factors: Mapping[tuple[AttentionKind, int, int], float]
    ) -> HeadGates:
        """Return gates of a model that are 1 but for some heads.

        Args: factors: by (kind, layer, head), 0-based.

        Raises: `ValueError` for a head that does not exist.
        """
        decoder = (config.n_decoder_layers, config.decoder_heads)
        shapes: dict[AttentionKind, tuple[int, int]] = {
            "encoder_self": (config.n_encoder_layers, config.n_heads),
            "decoder_self": decoder,
            "cross": decoder,
        }
        tables = {kind: torch.ones(shape) for kind, shape in shapes.items()}
        for (kind, layer, head), factor in factors.items():
            n_layers, n_heads = shapes[checked_kind(kind)]
            if not (0 <= layer < n_layers and 0 <= head < n_heads):
                raise ValueError(
                    f"{kind} has no layer {layer}, head {head}; there are layers 0 to "
                    f"{n_layers - 1} and heads 0 to {n_heads - 1}"
                )
            tables[kind][layer, head] = factor
        return cls(**{kind: tables[kind] for kind, _, _ in factors})

    def of_layer(self, kind: AttentionKind, layer: int) -> Tensor | None:
        """Return the factors [H] (or [B, H]) of one attention block, or None for all ones."""
        table: Tensor | None = getattr(self, kind)
        return None if table is None else table[layer]

    def wants(self, site: Site) -> bool:
        """Return True if heads of this kind are gated."""
        return (
            site.name == "heads" and site.kind is not None and getattr(self, site.kind) is not None
        )

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Scale the heads' outputs [B, H, T, d_v]."""
        assert site.kind is not None and site.layer is not None
        factors = self.of_layer(site.kind, site.layer)
        return value if factors is None else value * factors.to(value)[..., None, None]
