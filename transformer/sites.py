"""Sites: places in a model where hooks may read and write values."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, Self, get_args

from transformer.config import ModelConfig
from transformer.types import AttentionKind, InputError, literals

Stack = Literal["encoder", "decoder"]
Block = Literal["embedding", "self", "cross", "feed_forward", "final"]
Name = Literal["input", "q", "k", "v", "scores", "weights", "heads", "inner", "output", "hidden"]

#: A layer's blocks, in order.
BLOCKS: dict[Stack, tuple[Literal["self", "cross", "feed_forward"], ...]] = {
    "encoder": ("self", "feed_forward"),
    "decoder": ("self", "cross", "feed_forward"),
}

_ATTENTION: tuple[Name, ...] = (
    "input", "q", "k", "v", "scores", "weights", "heads", "output", "hidden",
)  # fmt: skip
_FEED_FORWARD: tuple[Name, ...] = ("input", "inner", "output", "hidden")


class Site(NamedTuple):
    """A place in the model where hooks may read and write a value.

    Attributes:
        stack: "encoder" or "decoder".
        layer: 0-based; None for the blocks "embedding" and "final".
        block: "embedding", "self", "cross" (decoder only), "feed_forward" or "final".
        name: the value, listed in the order in which a block visits them:

            input    [B, T, d_model]  what the block reads: the residual stream, after LayerNorm in
                                      a pre-norm model
            q        [B, H, T, d_k]   queries (attention only, as are the next five)
            k        [B, H, S, d_k]   keys
            v        [B, H, S, d_v]   values
            scores   [B, H, T, S]     q k^T / sqrt(d_k) plus relative positions, before the mask
            weights  [B, H, T, S]     their softmax under the mask, before dropout
            heads    [B, H, T, d_v]   head outputs, before W_O
            inner    [B, T, d_ff]     activations (feed-forward only)
            output   [B, T, d_model]  the addition to the residual stream, before dropout
            hidden   [B, T, d_model]  the residual stream after the block, and after LayerNorm in a
                                      post-norm model; the only value of "embedding" (the first
                                      layer's input) and "final" (the stack's output)
    """

    stack: Stack
    layer: int | None
    block: Block
    name: Name

    @classmethod
    @literals
    def of(cls, kind: AttentionKind, layer: int, name: Name) -> Self:
        """Return a site of the attention block for one kind of maps."""
        stack: Stack = "encoder" if kind == "encoder_self" else "decoder"
        return cls(stack, layer, "cross" if kind == "cross" else "self", name)

    @property
    def kind(self) -> AttentionKind | None:
        """The block's kind of attention, or None."""
        if self.block == "self":
            return "encoder_self" if self.stack == "encoder" else "decoder_self"
        return "cross" if self.block == "cross" else None


@lru_cache(maxsize=64)
def sites(config: ModelConfig) -> tuple[Site, ...]:
    """Return all sites of a model, in the order in which `encode`, then `decode` visit them."""
    depths = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    result = []
    for stack in get_args(Stack):
        result.append(Site(stack, None, "embedding", "hidden"))
        result += [
            Site(stack, layer, block, name)
            for layer in range(depths[stack])
            for block in BLOCKS[stack]
            for name in (_FEED_FORWARD if block == "feed_forward" else _ATTENTION)
        ]
        result.append(Site(stack, None, "final", "hidden"))
    return tuple(result)


Wanted = Collection[Site] | Callable[[Site], bool]


@literals
def matching(
    *, stack: Stack | None = None, layer: int | None = None, block: Block | None = None,
    name: Name | None = None,
) -> Callable[[Site], bool]:  # fmt: skip
    """Return a test for sites with these fields. Raises `InputError` for unknown values."""
    fields = {"stack": stack, "layer": layer, "block": block, "name": name}
    fields = {field: value for field, value in fields.items() if value is not None}
    return lambda site: all(getattr(site, field) == value for field, value in fields.items())


def check_sites(requested: Collection[Site], every: Sequence[Site]) -> None:
    """Raise `InputError` for a site that a model lacks, naming it and the alternatives."""
    for wrong in [site for site in requested if site not in every]:
        rest = every
        for field, value in zip(Site._fields, wrong, strict=True):
            choices = dict.fromkeys(getattr(site, field) for site in rest)
            if value not in choices:
                names = ", ".join(map(repr, choices))
                raise InputError(f"{wrong} does not exist: {field} is one of {names} there")
            rest = [site for site in rest if getattr(site, field) == value]
