"""The edited model: a `Transformer` that shares all unedited weights with the original.

It runs, records and measures like any other model. Edits change weights where possible (`off`
zeroes rows of W_V), which the fast execution can run. Otherwise a module below takes over the
weights of another; only the reference execution runs it.
"""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.edits.language import KINDS, Edit, parse_edits
from transformer.hooks import PLAIN, Chain, Context, Hook, Hooks, Site
from transformer.kernels import causal_mask
from transformer.layers import FeedForward, Residual
from transformer.model import Decoded, Encoded, Transformer
from transformer.positions import NoPositions, ShiftedPositions
from transformer.types import AttentionKind, InputError, Report, no_report

M = TypeVar("M", bound=nn.Module)

#: The mean output [H, d_v] of the heads of an attention block, by (kind, layer).
Means = Mapping[tuple[AttentionKind, int], Tensor]


class EditedAttention(MultiHeadAttention):
    """Attention with cut edges or heads at their mean. A query without edges reads nothing."""

    cuts: tuple[Edit, ...] = ()
    distance_gains: Tensor | float = 1.0  # [H, 1, 1], 1 or 0: add relative positions or not
    means: Tensor | None = None  # [H, d_v], mean outputs
    at_mean: Tensor | None = None  # [H] bool, heads with these outputs
    masked = True  # causal attention hides later tokens

    def heads(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, at: Context, *, causal: bool
    ) -> Tensor:
        """See `MultiHeadAttention`."""
        scores = q @ k.mT / math.sqrt(self.d_k)  # [B, H, T, S]
        if at.relative is not None:
            scores = scores + at.relative * self.distance_gains
        scores = at("scores", scores)
        queries = torch.arange(q.size(2)) + at.start if at.queries is None else at.queries
        keys = torch.arange(k.size(2)) if at.keys is None else at.keys
        allowed = self._uncut(queries.to(q.device), keys.to(q.device))
        if causal and self.masked:
            allowed = allowed & causal_mask(q.size(2), k.size(2), q.device)
        if mask is not None:
            allowed = allowed & mask
        nothing = ~allowed.any(-1, keepdim=True)
        weights = scores.masked_fill(~(allowed | nothing), -math.inf).softmax(-1)
        heads = at("weights", weights.masked_fill(nothing, 0)) @ v
        if self.means is not None and self.at_mean is not None:
            heads = torch.where(self.at_mean[:, None, None], self.means[:, None], heads)
        return heads

    def _uncut(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the edges that no cut removes, [1, H, T, S]. Args: positions, [T] and [S]."""
        shape = 1, self.n_heads, len(queries), len(keys)
        allowed = torch.ones(shape, dtype=torch.bool, device=queries.device)
        for cut in self.cuts:
            rows, columns = (
                torch.ones_like(places, dtype=torch.bool) if at is None else places == at
                for places, at in ((queries, cut.query), (keys, cut.key))
            )
            allowed[:, slice(None) if cut.index is None else cut.index] &= ~(
                rows[:, None] & columns
            )
        return allowed


class FixedNeurons(FeedForward):
    """A feed-forward network with neurons at a fixed value."""

    neurons: Mapping[int, float] = MappingProxyType({})

    def forward(self, x: Tensor, at: Context = PLAIN) -> Tensor:
        """See `FeedForward`."""
        inner = self.activation(self.w_1(x))  # [B, T, d_ff]
        values = inner.new_tensor(list(self.neurons.values()))
        inner = inner.index_copy(-1, torch.tensor(list(self.neurons), device=x.device),
                                 values.expand(*inner.shape[:-1], -1))  # fmt: skip
        output: Tensor = self.w_2(at("inner", inner))
        return output


class Skipped(Residual):
    """A connection that passes on the residual stream without its block."""

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor, Context], Tensor], at: Context = PLAIN
    ) -> Tensor:
        """Return x; the block runs to be recorded."""
        read = at("input", self.norm(x).to(x.dtype) if self.pre else x)
        at("output", torch.zeros_like(sublayer(read, at)))
        return at("hidden", x)


class WithoutResidual(Residual):
    """A connection that passes on its block's output without the input."""

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor, Context], Tensor], at: Context = PLAIN
    ) -> Tensor:
        """See `Residual`."""
        read = at("input", self.norm(x).to(x.dtype) if self.pre else x)
        x = self.dropout(at("output", sublayer(read, at)))
        return at("hidden", x if self.pre else self.norm(x).to(x.dtype))


class Unmasked(Transformer):
    """A model whose decoder sees the later tokens of a target, but no padding."""

    def decode(self, tgt_in: Tensor, encoded: Encoded, **options: Any) -> Decoded:
        """See `Transformer`."""
        hooks: Hook | None = options.pop("hooks", None)
        if options.get("cache") is None:
            hidden = _WithoutPadding((tgt_in == self.config.pad_id)[:, None, None])
            # A row may begin with the padding token, which is then its start, not its padding.
            hidden.padding[..., 0] = False
            hooks = Chain(hidden, hooks)
        return super().decode(tgt_in, encoded, hooks=hooks, **options)


class _WithoutPadding(Hooks):
    def __init__(self, padding: Tensor) -> None:
        """Args: padding: [B, 1, 1, T] bool."""
        self.padding = padding

    def wants(self, site: Site) -> bool:
        return site.kind == "decoder_self" and site.name == "scores"

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        return value.masked_fill(self.padding, -math.inf)


def edited(
    model: Transformer, edits: str | Iterable[str | Edit], means: Means | None = None
) -> Transformer:
    """Return an edited copy of a model that shares its other weights.

    Args:
        edits: see `transformer.edits.language`.
        means: for `mean`; see `head_means`.

    Raises: `InputError` for an edit that the model does not support.
    """
    parsed = parse_edits(edits)
    for edit in parsed:
        edit.check(model.config)
    unchanged: Iterable[object] = chain(model.parameters(), model.buffers(), [model.config])
    originals = {id(item): item for item in unchanged}
    copied = copy.deepcopy(model, originals)  # copies modules, not weights
    if any(edit.verb == "no mask" for edit in parsed):
        copied = _replace(copied, copied, Unmasked)
    for kind in KINDS.values():
        for layer in range(len(copied.encoder if kind == "encoder_self" else copied.decoder)):
            of_block = [
                edit for edit in parsed if edit.of_heads and edit.layer in (None, layer)
                and (edit.where is None or KINDS[edit.where] == kind)
            ]  # fmt: skip
            if of_block:
                _edit_heads(copied, of_block, kind, layer, means)
    for edit in parsed:
        if not edit.of_heads:
            _edit_rest(copied, edit)
    return copied


def _edit_heads(
    model: Transformer, edits: Sequence[Edit], kind: AttentionKind, layer: int,
    means: Means | None,
) -> None:  # fmt: skip
    block = model.attention_block(kind, layer)
    ones = torch.ones(block.n_heads, device=block.w_q.weight.device)
    gains, scales, uniform = ones, ones.clone(), ones == 0  # each [H]
    swapped, at_mean = uniform.clone(), uniform.clone()
    for edit in edits:
        heads = slice(None) if edit.index is None else edit.index
        if edit.verb in ("off", "scale"):
            gains[heads] *= edit.value or 0.0
        elif edit.verb == "uniform":
            uniform[heads] = True
        elif edit.verb == "no scaling":
            scales[heads] = math.sqrt(block.d_k)
        elif edit.verb == "swap qk":
            swapped[heads] = True
        elif edit.verb == "mean":
            at_mean[heads] = True
    if swapped.any():
        rows = swapped.repeat_interleave(block.d_k)
        pairs = [("weight", rows[:, None])] + [("bias", rows)] * (block.w_q.bias is not None)
        for name, swap in pairs:
            a, b = getattr(block.w_q, name).detach(), getattr(block.w_k, name).detach()
            setattr(block.w_q, name, nn.Parameter(torch.where(swap, b, a), requires_grad=False))
            setattr(block.w_k, name, nn.Parameter(torch.where(swap, a, b), requires_grad=False))
    scales[uniform] = 0
    _scale(block.w_q, scales.repeat_interleave(block.d_k))
    _scale(block.w_v, gains.repeat_interleave(block.d_v))
    cuts = tuple(edit for edit in edits if edit.verb == "cut")
    relative = bool(uniform.any()) and model.distances(kind, 1, 1) is not None
    if not (cuts or at_mean.any() or relative or isinstance(block, EditedAttention)):
        return
    new = _replace(model, block, EditedAttention)
    new.cuts = (*new.cuts, *cuts)  # an edited model keeps its earlier cuts
    new.distance_gains = new.distance_gains * (~uniform).float()[:, None, None]
    if new.means is not None:
        new.means = new.means * gains[:, None]
    if at_mean.any():
        if means is None or (kind, layer) not in means:
            raise InputError(
                f"edit “{next(e for e in edits if e.verb == 'mean')}”: the model's means are not "
                "known; give `means`, from `head_means`"
            )
        outputs = means[kind, layer].to(new.w_v.weight) * gains[:, None]
        if new.means is not None and new.at_mean is not None:
            outputs = torch.where(new.at_mean[:, None], new.means, outputs)
            at_mean = at_mean | new.at_mean
        new.means, new.at_mean = outputs, at_mean


def _replace(parent: nn.Module, old: nn.Module, kind: type[M]) -> M:
    """Replace a module by one of `kind` with its weights and settings."""
    new = kind.__new__(kind)
    new.__dict__.update(old.__dict__)
    for module in parent.modules():
        for name, child in module.named_children():
            if child is old:
                setattr(module, name, new)
    return new


def _edit_rest(model: Transformer, edit: Edit) -> None:
    stacks = [name for name in ("encoder", "decoder") if edit.where in (None, name)]
    if edit.verb == "no positions":
        for name in stacks:
            _without_positions(model, name)
    elif edit.verb == "shift positions":
        assert edit.value is not None
        for side in ("src_positions", "tgt_positions"):
            setattr(model, side, ShiftedPositions(getattr(model, side), int(edit.value)))
    if edit.verb in ("no positions", "shift positions"):
        return
    for name in stacks:
        for index, layer in enumerate(getattr(model, name)):
            if edit.layer in (None, index):
                _edit_layer(layer, edit)


def _edit_layer(layer: nn.Module, edit: Edit) -> None:
    connections = [child for child in layer.children() if isinstance(child, Residual)]
    feed: FeedForward = layer.feed_forward  # type: ignore[assignment]
    if edit.verb == "skip":
        for connection in connections:
            _replace(layer, connection, Skipped)
    elif edit.verb == "no residual":
        for connection in connections:
            if not isinstance(connection, Skipped):
                _replace(layer, connection, WithoutResidual)
    elif edit.verb == "ffn off":
        _scale(feed.w_2, feed.w_2.weight.new_zeros(len(feed.w_2.weight)))
    elif edit.verb == "neuron":
        assert edit.index is not None and edit.value is not None
        fixed = _replace(layer, feed, FixedNeurons)
        fixed.neurons = {**fixed.neurons, edit.index: edit.value}
    elif edit.verb == "no mask":
        block: MultiHeadAttention = layer.self_attention  # type: ignore[assignment]
        _replace(layer, block, EditedAttention).masked = False


def _without_positions(model: Transformer, stack: str) -> None:
    side = "src" if stack == "encoder" else "tgt"
    if model.config.positions == "relative":
        distances = getattr(model, f"{side}_distances")
        distances.table = nn.Parameter(torch.zeros_like(distances.table), requires_grad=False)
        return
    positions = NoPositions(model.config.d_model).to(model.generator.weight)
    setattr(model, f"{side}_positions", positions)


def _scale(linear: nn.Linear, rows: Tensor) -> None:
    """Multiply the rows of a projection by factors [rows], unless all are 1."""
    if bool((rows == 1).all()):
        return
    linear.weight = nn.Parameter(linear.weight.detach() * rows[:, None], requires_grad=False)
    if linear.bias is not None:
        linear.bias = nn.Parameter(linear.bias.detach() * rows, requires_grad=False)


class _Sums(Hooks):
    """Sums of head outputs over the positions of sentences, one at a time."""

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
    progress: Report = no_report,
) -> Means:
    """Return the mean outputs of heads over all positions of sentences and their translations.

    Args:
        pairs: source ids and decoder inputs, as a trace's `src_ids` and `tgt_ids`.
        progress: called with (sentences done, all sentences); may raise to stop.

    Returns: [H, d_v] by (kind, layer).

    Raises: `InputError` if there are no sentences.
    """
    if not pairs:
        raise InputError("the mean of a head needs at least one sentence")
    sums, device = _Sums(), model.generator.weight.device
    with torch.inference_mode():
        for done, (src, tgt_in) in enumerate(pairs, 1):
            encoded = model.encode(torch.tensor([list(src)], device=device), hooks=sums)
            model.decode(torch.tensor([list(tgt_in)], device=device), encoded, hooks=sums)
            progress(done, len(pairs))
    return {place: (sums.sums[place] / sums.counts[place]).float() for place in sums.sums}
