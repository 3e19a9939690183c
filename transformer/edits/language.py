"""Edits as text: `off cross.3.5`, `cut cross q4 k2`, `no positions`.

Layers, heads, neurons and positions are 1-based, as on screen. `encoder`, `decoder` and `cross`
name a kind of attention in head edits, and a stack in layer edits. Omitting the last numbers of a
place selects all of its layers or heads:

    off HEADS                set head outputs to 0, before W_O
    scale HEADS FACTOR       multiply head outputs by 0 to 4; factors on one head multiply
    mean HEADS               replace head outputs by their mean over reference sentences
    uniform HEADS            spread weights evenly over unmasked keys
    cut HEADS [qN] [kN]      remove the edge from query N to key N, or all edges of one
    ffn off STACK.LAYER      remove a feed-forward network
    neuron STACK.L.N VALUE   fix a neuron at a value
    skip STACK.LAYER         pass a layer's input through
    no positions [STACK]     add no positions
    no scaling [HEADS]       omit the division by sqrt(d_k)
    no mask [decoder.LAYER]  let the decoder see later tokens under teacher forcing
    no residual STACK.LAYER  omit a layer's residual connections
    shift positions N        count positions from N + 1
    swap qk HEADS            swap queries and keys

The order of edits does not matter. `off` and `scale` apply after `mean`, `uniform` and `cut`.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, NoReturn, Union, get_args

import numpy as np

from transformer.config import ModelConfig
from transformer.types import AttentionKind, Bools, InputError, literals

Verb = Literal[
    "off", "scale", "mean", "uniform", "cut", "ffn off", "neuron", "skip", "no positions",
    "no scaling", "no mask", "no residual", "shift positions", "swap qk",
]  # fmt: skip
VERBS: tuple[Verb, ...] = get_args(Verb)

#: Edits accepted by functions: one text with several edits, or texts and `Edit`s.
Edits = Union[str, "Edit", Iterable[Union[str, "Edit"]]]

Where = Literal["encoder", "decoder", "cross"]
KINDS: dict[Where, AttentionKind] = {
    "encoder": "encoder_self", "decoder": "decoder_self", "cross": "cross",
}  # fmt: skip
#: Place name of each kind of attention.
PLACES: dict[AttentionKind, Where] = {kind: name for name, kind in KINDS.items()}

#: Maximum `scale` factor, `neuron` value, and position shift.
MAX_FACTOR, MAX_VALUE, MAX_SHIFT = 4.0, 1e4, 1000
#: Maximum number of edits, and characters in the text of one edit.
MAX_EDITS, MAX_LENGTH = 256, 80

#: Minimum and maximum count of numbers in a place.
_PLACES: dict[Verb, tuple[int, int]] = {
    "off": (0, 2), "scale": (0, 2), "mean": (0, 2), "uniform": (0, 2), "cut": (0, 2),
    "ffn off": (0, 1), "neuron": (2, 2), "skip": (1, 1), "no positions": (0, 0),
    "no scaling": (0, 2), "no mask": (0, 1), "no residual": (0, 1), "swap qk": (0, 2),
}  # fmt: skip
_OF_STACKS = ("ffn off", "neuron", "skip", "no positions", "no mask", "no residual")
_MAY_BE_ALL = ("no positions", "no scaling", "no mask")
_VALUES: dict[Verb, tuple[float, float]] = {
    "scale": (0.0, MAX_FACTOR),
    "neuron": (-MAX_VALUE, MAX_VALUE),
    "shift positions": (1, MAX_SHIFT),
}
_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Edit:
    """One edit, with 0-based numbers."""

    verb: Verb
    where: Where | None = None  # attention kind or stack; None for all
    layer: int | None = None
    index: int | None = None  # head or neuron
    value: float | None = None  # scale factor, neuron value, or position shift
    query: int | None = None
    key: int | None = None

    def __str__(self) -> str:
        numbers = [f".{n + 1}" for n in (self.layer, self.index) if n is not None]
        edges = ((name, n) for name, n in (("q", self.query), ("k", self.key)) if n is not None)
        parts = [
            self.verb,
            (self.where or "") + "".join(numbers),
            "" if self.value is None else str(self.value).removesuffix(".0"),
            *(f"{name}{n + 1}" for name, n in edges),
        ]
        return " ".join(filter(None, parts))

    @property
    def kind(self) -> AttentionKind:
        """The kind of attention in a head edit."""
        assert self.where is not None
        return KINDS[self.where]

    @property
    def place(self) -> str:
        """The edited heads, network or layers in words."""
        layer = "" if self.layer is None else f"layer {self.layer + 1}"
        if self.of_heads:
            kind = _WORDS["kinds"][self.where or "all"]
            head = "" if self.index is None else f"head {self.index + 1}"
            return ", ".join(filter(None, (f"{kind} {layer}".strip(), head)))
        neuron = "" if self.index is None else f"neuron {self.index + 1} of "
        return neuron + (
            f"{self.where} {layer}" if layer else _WORDS["stacks"][self.where or "all"]
        )

    @property
    def words(self) -> str:
        """The edit in words, such as "cross-attention layer 3, head 5 off"."""
        place, value = self.place, "" if self.value is None else f"{self.value:g}"
        reads, read = ("source token", "source token") if self.where == "encoder" else (
            "step", "source token" if self.where == "cross" else "target position"
        )  # fmt: skip
        query = "" if self.query is None else f"{reads} {self.query + 1}"
        key = "" if self.key is None else f"{read} {self.key + 1}"
        if query and key:
            edge = f"{key} hidden from {query}"
        else:
            edge = f"{key} hidden" if key else f"{query} reads nothing"
        return str(_WORDS["verbs"][self.verb].format(place=place, value=value, edge=edge))

    @property
    def of_heads(self) -> bool:
        """True if the edit applies to heads, False if to layers."""
        return self.verb not in _OF_STACKS and self.verb != "shift positions"

    @property
    def silences(self) -> bool:
        """True for `off`, or `scale` by 0."""
        return self.verb == "off" or (self.verb == "scale" and self.value == 0)

    def check(self, config: ModelConfig) -> None:
        """Raise `InputError` if a model lacks what is edited, naming what there is."""
        if self.verb == "shift positions" and self.value is not None:
            if config.positions == "relative":
                self._refuse("positions of this model are distances, which no shift changes")
            if config.positions != "sinusoidal" and self.value >= config.max_positions:
                self._refuse(f"the model has {config.max_positions} positions")
        if self.where is None:
            return
        encoder = self.where == "encoder"
        n_layers = config.n_encoder_layers if encoder else config.n_decoder_layers
        if self.layer is not None and self.layer >= n_layers:
            self._refuse(f"{self.where} has layers 1 to {n_layers}")
        if self.of_heads:
            n, what = (config.n_heads if encoder else config.decoder_heads), "heads"
        else:
            n, what = (config.d_ff if encoder else config.decoder_inner), "neurons"
        if self.index is not None and self.index >= n:
            self._refuse(f"{self.where} layers have {what} 1 to {n}")

    def check_tokens(self, n_source: int, n_target: int) -> None:
        """Raise `InputError` for a query or key that a sentence and its translation lack."""
        for name, at, of_source in (
            ("q", self.query, self.where == "encoder"), ("k", self.key, self.where != "decoder"),
        ):  # fmt: skip
            n, text = (n_source, "source") if of_source else (n_target, "translation")
            if at is not None and at >= n:
                self._refuse(f"{name}{at + 1} is beyond the {text}, {name}1 to {name}{n}")

    def _refuse(self, reason: str) -> NoReturn:
        raise InputError(f"edit “{self}”: {reason}")


def parse_edit(text: str) -> Edit:
    """Parse one edit. Raises `InputError` if it is invalid."""
    if len(text) > MAX_LENGTH:
        raise InputError(f"edit “{text[:40]}…” has {len(text)} characters; maximum {MAX_LENGTH}")
    words = text.split()
    verb = next((name for name in VERBS if words[: len(name.split())] == name.split()), None)
    if verb is None:
        raise InputError(f"edit “{text}”: unknown verb; expected one of {', '.join(VERBS)}")
    edit, rest = Edit(verb), words[len(verb.split()) :]
    if verb in _PLACES and rest and not (verb in _MAY_BE_ALL and len(rest) > 1):
        edit = _placed(edit, rest.pop(0), text)
    elif verb in _PLACES and verb not in _MAY_BE_ALL:
        _bad(text, f"no place; expected one such as {_example(verb)}")
    if verb in _VALUES:
        edit = replace(edit, value=_value(verb, rest.pop(0) if rest else "", text))
    if verb == "cut":
        edit = _edges(edit, rest, text)
    elif rest:
        _bad(text, f"unexpected “{rest[0]}”; expected nothing after “{verb}”")
    return edit


def parse_edits(edits: Edits) -> tuple[Edit, ...]:
    """Parse edits, separated by “;” or “,” within one text.

    Returns: unique edits in canonical order.

    Raises: `InputError` for an invalid edit, conflicting values, or too many edits.
    """
    parsed: set[Edit] = set()
    for item in edits if isinstance(edits, Iterable) and not isinstance(edits, str) else [edits]:
        if isinstance(item, Edit):
            parsed.add(item)
        elif not isinstance(item, str):
            raise InputError(
                f"edit {item!r:.80}; expected text such as “off cross.3.5”, or an Edit"
            )
        else:
            parsed.update(parse_edit(part) for part in re.split("[;,]", item) if part.strip())
    if len(parsed) > MAX_EDITS:
        raise InputError(f"{len(parsed)} edits; at most {MAX_EDITS} are allowed")
    ordered = sorted(parsed, key=_order)
    for one, other in pairwise(ordered):
        if one.value != other.value and replace(one, value=None) == replace(other, value=None):
            raise InputError(f"edits “{one}” and “{other}” set the same value; keep only one")
    return tuple(ordered)


def text_of(edits: Sequence[Edit]) -> str:
    """Return edits as one text for `parse_edits`."""
    return "; ".join(map(str, edits))


def in_words(edits: Iterable[Edit]) -> list[str]:
    """Return edits in words; removed heads of one kind form one entry."""
    groups: dict[object, list[Edit]] = {}
    for edit in edits:
        is_head = edit.verb == "off" and edit.index is not None
        groups.setdefault(edit.where if is_head else edit, []).append(edit)
    return [
        group[0].words
        if len(group) == 1
        else f"{replace(group[0], layer=None, index=None).place} heads "
        f"{', '.join(f'{(e.layer or 0) + 1}.{(e.index or 0) + 1}' for e in group)} off"
        for group in groups.values()
    ]


@literals
def heads_off(edits: Iterable[Edit], kind: AttentionKind, shape: tuple[int, int]) -> Bools:
    """Return the heads [L, H] of one kind that edits remove."""
    off = np.zeros(shape, np.bool_)
    for edit in edits:
        if edit.silences and edit.kind == kind:
            layer, head = (slice(None) if at is None else at for at in (edit.layer, edit.index))
            off[layer, head] = True
    return off


@literals
def off_edits(kind: AttentionKind, off: Bools) -> list[Edit]:
    """Return the fewest edits that remove heads [L, H]: a whole kind, whole layers, or heads."""
    where = PLACES[kind]
    if off.all():
        return [Edit("off", where)]
    edits = []
    for layer, row in enumerate(off):
        heads = [None] if row.all() else np.flatnonzero(row).tolist()
        edits += [Edit("off", where, layer, head) for head in heads]
    return edits


def _order(edit: Edit) -> tuple[object, ...]:
    numbers = (edit.layer, edit.index, edit.query, edit.key)
    where = -1 if edit.where is None else list(KINDS).index(edit.where)
    missing_first = (-1 if n is None else n for n in numbers)
    return VERBS.index(edit.verb), where, *missing_first, edit.value or 0.0


def _placed(edit: Edit, place: str, text: str) -> Edit:
    name, *numbers = place.split(".")
    name = name.removesuffix("_self")
    allowed = list(KINDS)[:2] if edit.verb in _OF_STACKS else list(KINDS)
    if edit.verb == "no mask":
        allowed = ["decoder"]  # only decoder self-attention is causal
    if name not in allowed:
        _bad(text, f"unknown place “{name}”; expected {' or '.join(allowed)}")
    least, most = _PLACES[edit.verb]
    if not least <= len(numbers) <= most or not all(map(_counts, numbers)):
        _bad(text, f"invalid place “{place}”; expected one such as {_example(edit.verb)}")
    layer, index, *_ = (*(int(n) - 1 for n in numbers), None, None)
    return replace(edit, where=name, layer=layer, index=index)


def _value(verb: Verb, word: str, text: str) -> float:
    least, most = _VALUES[verb]
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    whole = verb == "shift positions"
    if not least <= value <= most or (whole and value % 1):
        kind = "an integer" if whole else "a number"
        _bad(text, f"invalid value “{word}”; expected {kind} from {least:g} to {most:g}")
    return value + 0.0  # no negative zero


def _edges(edit: Edit, words: Sequence[str], text: str) -> Edit:
    ends: dict[str, int] = {}
    for word in words:
        if word[:1] not in ("q", "k") or not _counts(word[1:]) or word[0] in ends:
            _bad(text, f"invalid edge “{word}”; expected one query (such as q4) or key (k2)")
        ends[word[0]] = int(word[1:]) - 1
    if not ends:
        _bad(text, "no edge; expected a query such as q4 or a key such as k2")
    return replace(edit, query=ends.get("q"), key=ends.get("k"))


def _counts(digits: str) -> bool:
    return bool(re.fullmatch(r"[1-9][0-9]{0,5}", digits, re.ASCII))


def _example(verb: Verb) -> str:
    place = {"neuron": "decoder.2.713", "skip": "decoder.2"}
    return place.get(verb, "decoder.2" if verb in _OF_STACKS else "cross.3.5")


def _bad(text: str, reason: str) -> NoReturn:
    raise InputError(f"edit “{text}”: {reason}")
