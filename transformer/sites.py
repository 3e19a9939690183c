"""Sites: the places in a model whose values hooks may read and write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from transformer.config import ModelConfig
from transformer.errors import InputError
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


@lru_cache(maxsize=64)
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
    """Return a test for sites that have all the given fields.

    Raises: `InputError` for a stack, block or name that no site has.
    """
    for value, kind in ((stack, Stack), (block, Block), (name, Name)):
        if value is not None and value not in get_args(kind):
            raise InputError(f"{value!r} is not one of: {', '.join(get_args(kind))}")
    given = {"stack": stack, "layer": layer, "block": block, "name": name}
    fields = {field: value for field, value in given.items() if value is not None}
    return lambda site: all(getattr(site, field) == value for field, value in fields.items())


def check_sites(asked: Collection[Site], every: Sequence[Site]) -> None:
    """Raise `InputError` for a site that a model does not have: its name, and what there is."""
    for site in asked:
        rest = every
        for field, value in zip(Site._fields, site, strict=True):
            there = dict.fromkeys(getattr(each, field) for each in rest)
            if value not in there:
                names = ", ".join(map(repr, there))
                raise InputError(f"{site} does not exist: {field} is one of {names} there")
            rest = [each for each in rest if getattr(each, field) == value]
