"""Hooks: read or replace any value inside the model while it runs. A block has them in its context.

`Transformer.encode` and `decode` take one `Hooks` object, or None. At every `Site` that the hooks
want, they receive the value and return the one with which the forward pass continues:

    gates = HeadGates.of(model.config, {("cross", 1, 0): 0.0})      # ablate one head
    record = Record(matching(stack="decoder", name="hidden"))       # keep every hidden state
    hooks = Chain(gates, record)
    decoded = model.decode(tgt_in, model.encode(src, hooks=hooks), hooks=hooks)
    record[Site("decoder", 2, "cross", "hidden")]                   # [B, T, d_model]

A plain function of (site, value) is a hook for every site; returning None leaves the value
unchanged. Sites that the model lacks are refused when a pass begins.

Values stay in the autograd graph, so gradients flow through gates and records. With a cache, every
call of `decode` visits the sites again: T is the number of new positions, and keys are those of all
positions so far.

A translator sorts its sentences into batches, drops finished ones, and gives each one row per
hypothesis. Row values in `HeadGates` and `Replace` belong to the caller's sentences and follow
them; `Hooks.for_rows` tells other hooks whose rows they see.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from transformer.config import ModelConfig
from transformer.sites import BLOCKS, Block, Name, Site, Stack, Wanted, check_sites, matching, sites
from transformer.steps import KeysValues, KVCache
from transformer.types import ATTENTION_KINDS, AttentionKind, InputError, checked_kind, literals

__all__ = [
    "BLOCKS", "Block", "Chain", "Complete", "HeadGates", "Hook", "Hooks", "Name", "Record",
    "Replace", "Site", "Stack", "Wanted", "as_hooks", "begun", "matching", "sites",
]  # fmt: skip


class Hooks:
    """Base class of hooks, which read or replace values at the sites that they want."""

    def wants(self, site: Site) -> bool:
        """Return True to receive values at this site.

        Attention computes explicit weights if "scores" or "weights" are wanted; otherwise it runs
        PyTorch's fused kernel.
        """
        return True

    def __call__(self, site: Site, value: Tensor) -> Tensor | None:
        """Return the value with which the forward pass continues, of the same shape, or None to
        leave it unchanged.
        """
        return None

    def check(self, every: Sequence[Site], n_rows: int) -> None:
        """Raise `InputError` if a model lacks what these hooks need.

        Args: every: the model's sites.  n_rows: rows of the batch, or sentences of the caller.
        """
        if not any(map(self.wants, every)):
            layers = {site.stack: site.layer for site in every if site.layer is not None}
            stacks = ", ".join(f"{stack} layers 0 to {last}" for stack, last in layers.items())
            raise InputError(
                f"{type(self).__name__} wants none of the sites of this model, which has {stacks}"
            )

    def for_rows(self, sentences: Sequence[int]) -> "Hooks":
        """Return the hooks for a batch whose row i belongs to the caller's sentence sentences[i].

        A search calls it for every batch, and again after dropping or multiplying rows.
        """
        return self


#: A function is a hook for every site.
Hook = Hooks | Callable[[Site, Tensor], Tensor | None]


class _Function(Hooks):
    def __init__(self, function: Callable[[Site, Tensor], Tensor | None]) -> None:
        self._function = function

    def __call__(self, site: Site, value: Tensor) -> Tensor | None:
        return self._function(site, value)


def as_hooks(hook: Hook) -> Hooks:
    """Return a hook as `Hooks`. Raises `InputError` for anything but hooks and functions."""
    if isinstance(hook, Hooks):
        return hook
    if not callable(hook) or isinstance(hook, type):
        raise InputError(f"hooks are Hooks or a function of (site, value), not {hook!r:.80}")
    return _Function(hook)


def begun(hook: Hook, every: Sequence[Site], n_rows: int) -> Hooks:
    """Return a hook at the start of a pass, after `Hooks.check`."""
    hooks = as_hooks(hook)
    hooks.check(every, n_rows)
    return hooks


class Chain(Hooks):
    """Several hooks; each receives the value that the previous one returned."""

    def __init__(self, *hooks: Hook | None) -> None:
        """Args: hooks: None is skipped."""
        self.hooks = tuple(as_hooks(hook) for hook in hooks if hook is not None)

    def wants(self, site: Site) -> bool:
        """Return True if any of the hooks does."""
        return any(hook.wants(site) for hook in self.hooks)

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Return the last hook's value."""
        for hook in self.hooks:
            new = hook(site, value) if hook.wants(site) else None
            value = value if new is None else new
        return value

    def check(self, every: Sequence[Site], n_rows: int) -> None:
        """Check all hooks."""
        for hook in self.hooks:
            hook.check(every, n_rows)

    def for_rows(self, sentences: Sequence[int]) -> "Chain":
        """Return a chain of all hooks for the batch."""
        return Chain(*(hook.for_rows(sentences) for hook in self.hooks))


class Complete(Exception):  # noqa: N818 - like StopIteration, it is not an error
    """Raised by `Record(..., stop=True)` once it has every site, to end the forward pass."""


class Record(Hooks):
    """Records the values at some sites.

    `record[site]` is the latest value, and `record.values[site]` lists the values of all visits. In
    a translator's batch, `record.sentences[site]` lists, for each visit, the caller's sentences for
    the rows.
    """

    def __init__(self, wanted: Wanted, *, stop: bool = False) -> None:
        """Record sites.

        Args:
            wanted: sites, or a test such as `matching` returns.
            stop: raise `Complete` after the last `wanted` site, to skip the rest of the model.
        """
        if stop and callable(wanted):
            raise TypeError("stop=True needs a collection of sites, not a test")
        self._wanted = wanted if callable(wanted) else frozenset(wanted)
        self._stop = stop
        self.values: dict[Site, list[Tensor]] = {}
        self.sentences: dict[Site, list[Sequence[int]]] = {}
        self._rows: Sequence[int] = ()

    def wants(self, site: Site) -> bool:
        """Return True for recorded sites."""
        return self._wanted(site) if callable(self._wanted) else site in self._wanted

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Record the value and return it unchanged."""
        self.values.setdefault(site, []).append(value)
        self.sentences.setdefault(site, []).append(self._rows)
        if self._stop and not callable(self._wanted) and len(self.values) == len(self._wanted):
            raise Complete
        return value

    def check(self, every: Sequence[Site], n_rows: int) -> None:
        """Raise `InputError` for a missing site."""
        if callable(self._wanted):
            super().check(every, n_rows)
        else:
            check_sites(self._wanted, every)

    def for_rows(self, sentences: Sequence[int]) -> "Record":
        """Return a record that adds to this one."""
        here = copy.copy(self)
        here._rows = tuple(sentences)
        return here

    def __getitem__(self, site: Site) -> Tensor:
        """Return the latest value. Raises `KeyError` for an unvisited site."""
        return self.values[site][-1]

    @literals
    def layers(self, kind: AttentionKind, name: Name = "weights") -> Tensor:
        """Stack one attention kind's latest values over layers: [L, ...]."""
        matches = (site for site in self.values if site.kind == kind and site.name == name)
        return torch.stack([self[site] for site in sorted(matches)])


class Replace(Hooks):
    """Replaces values by an array of the same shape, or by a function of the value.

    Equal scores become uniform weights over the keys that the mask allows:

        uniform = Replace({Site("decoder", 1, "cross", "scores"): torch.zeros_like})

    The mask is not applied again to replaced weights: they must cover padding and later tokens
    themselves. An array, of PyTorch or NumPy, has one row per sentence.
    """

    def __init__(self, values: Mapping[Site, Any | Callable[[Tensor], Tensor | None]]) -> None:
        self.values = {
            site: value if callable(value) else torch.as_tensor(value)
            for site, value in values.items()
        }

    def wants(self, site: Site) -> bool:
        """Return True for sites with a replacement."""
        return site in self.values

    def __call__(self, site: Site, value: Tensor) -> Tensor | None:
        """Return the replacement."""
        other = self.values[site]
        return other.to(value) if isinstance(other, Tensor) else other(value)

    def check(self, every: Sequence[Site], n_rows: int) -> None:
        """Raise `InputError` for a missing site or a different number of rows."""
        check_sites(self.values, every)
        for site, value in self.values.items():
            if isinstance(value, Tensor) and value.shape[:1] != (n_rows,):
                raise InputError(f"{site}: a value {list(value.shape)} for {n_rows} rows")

    def for_rows(self, sentences: Sequence[int]) -> "Replace":
        """Return the replacement with these sentences' rows."""
        rows = list(sentences)
        return Replace({
            site: value[rows] if isinstance(value, Tensor) else value
            for site, value in self.values.items()
        })  # fmt: skip


@dataclass(frozen=True, eq=False)
class HeadGates(Hooks):
    """Multiplies head outputs by factors before W_O; None means all ones.

    A gate of 1 changes nothing, and 0 ablates the head. A table may also have factors for every row
    of the batch, or every sentence of a translator's call, [L, B, H]: many ablations at once.
    """

    encoder_self: Tensor | None = None  # [Le, H]
    decoder_self: Tensor | None = None  # [Ld, H]
    cross: Tensor | None = None  # [Ld, H]

    def __post_init__(self) -> None:
        for kind in self._gated():  # arrays of NumPy become tensors
            object.__setattr__(self, kind, torch.as_tensor(getattr(self, kind)))

    def _gated(self) -> list[AttentionKind]:
        return [kind for kind in ATTENTION_KINDS if getattr(self, kind) is not None]

    @classmethod
    def of(
        cls, config: ModelConfig, factors: Mapping[tuple[AttentionKind, int, int], float]
    ) -> "HeadGates":
        """Return a model's gates, 1 except for some heads.

        Args: factors: by (kind, layer, head), 0-based.

        Raises: `ValueError` for a missing head.
        """
        shapes = config.head_shapes
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

    @literals
    def of_layer(self, kind: AttentionKind, layer: int) -> Tensor | None:
        """Return one attention block's factors, [H] or [B, H], or None for all ones."""
        table: Tensor | None = getattr(self, kind)
        return None if table is None else table[layer]

    def wants(self, site: Site) -> bool:
        """Return True if heads of this kind are gated."""
        return site.name == "heads" and site.kind in self._gated()

    def check(self, every: Sequence[Site], n_rows: int) -> None:
        """Raise `InputError` if a table's layers or rows differ from the model and its batch."""
        for kind in self._gated():
            n_layers = len({site.layer for site in every if site.kind == kind})
            *sizes, _ = shape = list(getattr(self, kind).shape) or [0]
            if sizes not in ([n_layers], [n_layers, n_rows]):
                raise InputError(
                    f"{kind} gates {shape}: the model has {n_layers} such layers; expected "
                    f"[{n_layers}, heads], or [{n_layers}, {n_rows}, heads] for {n_rows} rows"
                )

    def for_rows(self, sentences: Sequence[int]) -> "HeadGates":
        """Return these sentences' gates."""
        rows = list(sentences)
        tables = {kind: getattr(self, kind) for kind in self._gated()}
        return replace(self, **{
            kind: table[:, rows] for kind, table in tables.items() if table.dim() == 3
        })  # fmt: skip

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Scale head outputs [B, H, T, d_v]."""
        assert site.kind is not None and site.layer is not None
        factors = self.of_layer(site.kind, site.layer)
        assert factors is not None
        if factors.size(-1) != value.size(1):
            raise InputError(
                f"{site.kind} gates of {factors.size(-1)} heads; the model has {value.size(1)}"
            )
        return value * factors.to(value)[..., None, None]


@dataclass(eq=False)
class Context:
    """A block's context in a forward pass.

    `value = at("q", value)` offers a value to the hooks, which may replace it.
    """

    stack: Stack = "encoder"
    hooks: Hooks | None = None
    cache: KVCache | None = None
    relative: Tensor | None = None  # [1, H, T, S], added to the logits of self-attention
    at_layer: int | None = None
    at_block: Block = "embedding"
    start: int = 0  # position of the first query
    #: queries, keys: positions [T] and, in self-attention, [S], if they are not in order
    queries: Tensor | None = None
    keys: Tensor | None = None

    def layer(self, index: int) -> Self:
        """Return the context of a layer."""
        return replace(self, at_layer=index)

    def block(self, block: Block) -> Self:
        """Return the context of a block in this layer or at the ends of the stack."""
        relative, keys = (self.relative, self.keys) if block == "self" else (None, None)
        return replace(self, relative=relative, keys=keys, at_block=block)

    def __call__(self, name: Name, value: Tensor) -> Tensor:
        """Return the value with which the forward pass continues."""
        if self.hooks is None:
            return value
        site = Site(self.stack, self.at_layer, self.at_block, name)
        new = self.hooks(site, value) if self.hooks.wants(site) else None
        if new is None:
            return value
        shape = list(new.shape) if isinstance(new, Tensor) else type(new).__name__
        if shape != list(value.shape):
            expected = list(value.shape)
            raise InputError(f"a hook returned {shape} at {site}; expected {expected} or None")
        return new

    def wants(self, *names: Name) -> bool:
        """Return True if the hooks want any of these values of the block."""
        if self.hooks is None:
            return False
        sites = (Site(self.stack, self.at_layer, self.at_block, name) for name in names)
        return any(map(self.hooks.wants, sites))

    def keys_values(self, project: Callable[[Tensor], KeysValues], source: Tensor) -> KeysValues:
        """Project `source` [B, S, d_model], appending to the cache if there is one."""
        if self.cache is None:
            return project(source)
        return self.cache.update(self.at_layer, self.at_block, project, source)


#: Without hooks, cache and relative positions.
PLAIN = Context()
