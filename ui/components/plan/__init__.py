"""Figure 1 of the paper for one checkpoint, with all numbers of a sentence in one message.

The picture plays a translation, unfolds blocks in place, and follows any token through any layer,
all in the browser. It reports the choice, a part to change, and a part to open as a page.

The body holds 16-bit integers. Every slice of an array along its first axis has its own scale,
so that a number is as exact as the slice's largest allows: 1/65,534 of it.
"""

import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from figures.palette import ROLES
from transformer.config import ModelConfig
from transformer.measures.compare import not_shared
from transformer.trace.records import StackName, Trace, Whole
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components import packing
from ui.components.layers import cells_of
from ui.components.player import alternatives

#: Pages that a part can open; the last two are views of Translate.
TARGETS = ("attention", "head", "positions", "removals", "layers", "why")
#: Bytes above which the message has the chosen tokens only, without queries, keys and values.
MOST_BYTES = 4_000_000
#: Next tokens for every step.
N_CANDIDATES = 6
#: Kinds of attention by stack.
KINDS: dict[StackName, tuple[AttentionKind, ...]] = {
    "encoder": ("encoder_self",), "decoder": ("decoder_self", "cross"),
}  # fmt: skip
#: Block descriptions.
_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))


@dataclass(frozen=True)
class PlanChoice:
    """A choice in the picture; positions count from 0."""

    source: int  # source position
    row: int  # decoder row
    focus: str  # the part that is unfolded, see `foci`


@dataclass(frozen=True)
class Opened:
    """A part to open as a page; indices count from 0."""

    page: str  # page address
    stack: StackName
    kind: str  # kind of attention, "" for other blocks
    layer: int
    head: int


@dataclass(frozen=True)
class Touched:
    """A change of the model or the translation; indices count from 0."""

    what: Literal["switch", "cut", "take"]  # a head, an edge of a head, a next token
    kind: AttentionKind
    layer: int
    head: int
    query: int  # the step of a next token
    key: int  # or the token's id


def foci(trace: Trace) -> set[str]:
    """Return the parts of the trace's model that can unfold, such as `decoder.2.cross.3`."""
    parts = {"softmax"}
    for stack, kinds in KINDS.items():
        depth, heads = trace.attention(kinds[0]).shape[:2]
        parts.add(f"{stack}.embedding")
        for at in (f"{stack}.{layer + 1}" for layer in range(depth)):
            blocks = [f"{at}.{block}" for block in ("self", "cross")[: len(kinds)]]
            parts |= {at, f"{at}.ffn", *blocks}
            parts |= {f"{block}_norm" for block in (f"{at}.ffn", *blocks)}
            parts |= {f"{block}.{head + 1}" for block in blocks for head in range(heads)}
    return parts


def parse_choice(reported: Any, trace: Trace) -> PlanChoice | None:
    """Return the reported choice, or None if it is invalid."""
    report = packing.fields(
        reported, source=range(len(trace.src_ids)), row=range(len(trace.tgt_ids)),
        focus=("", *foci(trace)),
    )  # fmt: skip
    return None if report is None else PlanChoice(**report)


def parse_opened(reported: Any, trace: Trace) -> Opened | None:
    """Return the part to open, or None if the report is invalid for this trace."""
    layers, heads = np.maximum(trace.encoder_self.shape[:2], trace.cross.shape[:2]).tolist()
    report = packing.fields(
        reported, page=TARGETS, stack=("encoder", "decoder"), kind=("", *ATTENTION_KINDS),
        layer=range(layers), head=range(heads),
    )  # fmt: skip
    return None if report is None else Opened(**report)


def parse_touched(reported: Any, trace: Trace) -> Touched | None:
    """Return the change, or None if the report is invalid for this trace."""
    report = packing.fields(reported, what=("switch", "cut", "take"), kind=ATTENTION_KINDS)
    if report is None:
        return None
    sizes: Any = map(range, trace.attention(report["kind"]).shape)
    layers, heads, queries, keys = sizes
    if report["what"] == "take":  # a next token of that step
        step = reported.get("query")
        keys = tuple(trace.top_ids[step].tolist()) if packing.fits(step, queries) else ()
    place = packing.fields(reported, layer=layers, head=heads, query=queries, key=keys)
    return None if place is None else Touched(**report, **place)


@dataclass(frozen=True)
class Edited:
    """Effects of edits and steering, which the picture marks."""

    out: Collection[tuple[AttentionKind, int, int]] = ()  # heads that are out
    cuts: Sequence[tuple[AttentionKind, int, int, int]] = ()  # layer, head, query and key
    before: Sequence[tuple[str, list[Any]]] = ()  # the last translation's tokens and `alternatives`
    possible: bool = False  # whether parts can be changed
    never: Collection[int] = ()  # ids that cannot be taken


def plan_component(
    whole: Whole, trace: Trace, config: ModelConfig, chosen: PlanChoice,
    edited: Edited | None = None,
) -> packing.Component[PlanChoice]:  # fmt: skip
    """Return the picture as a component; see `parse_opened` and `parse_touched` for its events.

    A message that would be larger than `MOST_BYTES` has the chosen source token and row only.
    """
    edited = edited or Edited()
    rows: dict[StackName, list[int] | None] = {"encoder": None, "decoder": None}
    if sum(2 * values.size for _, values in arrays_of(whole, trace, rows)) > MOST_BYTES:
        rows = {"encoder": [chosen.source], "decoder": [chosen.row]}
    arrays = [(name, each.shape, *_packed(each)) for name, each in arrays_of(whole, trace, rows)]
    now = trace.predicted_tokens
    before = [token for token, _ in edited.before]
    lost, new = not_shared(before or now, now)
    ends = [0, *(at + 1 for at in range(len(now)) if at not in new)]
    header = {
        "vocabulary": config.target_vocab_size,
        "pre": whole.stream.pre_norm,
        "stacks": [
            {
                "name": name, "depth": len(of.hidden), "rows": rows[name],
                "blocks": ["ffn" if block == "feed_forward" else block for block in of.blocks],
                "tokens": packing.labels(of.tokens, 18),
                "neurons": of.inner.shape[-1], "firing": of.n_firing.tolist(),
            }
            for name in KINDS for of in [whole.stream.stack(name)]
        ],
        "predicted": packing.labels(now, 18),
        "ids": list(trace.predicted_ids),
        "probabilities": np.exp(trace.log_probs.astype(np.float64)).round(6).tolist(),
        "candidates": alternatives(trace, N_CANDIDATES, limit=18),
        "logs": [[round(log, 2) if np.isfinite(log) else None for log in step[:N_CANDIDATES]]
                 for step in trace.top_log_probs.tolist()],  # None if a grammar forbids a token
        "lens": cells_of(whole.lens, whole.lens_tokens, 14),
        "words": "\n".join(packing.labels(whole.tokens, 14)).replace("\u2581", "_"),
        "unmasked": [bool(np.triu(layer, 1).any()) for layer in trace.decoder_self],
        "held": [[kind, *map(int, at)] for kind in ATTENTION_KINDS
                 for at in np.argwhere(whole.held[kind])],
        "out": [*map(list, edited.out)],
        "cuts": [*map(list, edited.cuts)],
        "changed": new if edited.before else None,
        "was": [each for _, each in edited.before][: min([*lost, *new, len(now)]) + 1],
        "lost": [[ends[at - n], *packing.labels([before[at]], 18)] for n, at in enumerate(lost)],
        "possible": edited.possible,
        "never": [*edited.never],
        "texts": texts_for(config),
        "arrays": [[name, [*shape], scales] for name, shape, scales, _ in arrays],
        "signed": packing.signed_colours(),
        "colours": packing.attention_colours(),
        "roles": ROLES,
    }  # fmt: skip
    return packing.Component(
        "plan", header, b"".join(packed for *_, packed in arrays), choice=asdict(chosen),
        parse=lambda reported: parse_choice(reported, trace),
    )  # fmt: skip


def arrays_of(
    whole: Whole, trace: Trace, rows: dict[StackName, list[int] | None]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a message by the names that data.js uses; integers stay integers.

    Args: rows: the positions to keep in each stack, None for all.
    """
    for stack, kinds in KINDS.items():
        at: Any = slice(None) if rows[stack] is None else rows[stack]
        of = whole.stream.stack(stack)
        for kind in kinds:
            yield f"w.{kind}", trace.attention(kind)[:, :, at]
            yield f"c.{kind}", whole.head_norms[kind][:, :, at]
            if rows[stack] is None:
                yield from ((f"{name}.{kind}", getattr(whole, name)[kind]) for name in "qkv")
                if kind in whole.relative:
                    yield f"r.{kind}", whole.relative[kind]
        yield f"x.{stack}", of.states[:, at]
        yield f"o.{stack}", of.outputs.reshape(-1, *of.entering.shape)[:, at]
        yield f"e.{stack}", whole.content[stack][None, at]
        neurons = whole.neurons[stack]
        yield f"i.{stack}", neurons[:, at]
        yield f"f.{stack}", np.take_along_axis(of.inner, neurons, axis=-1)[:, at]
    yield "p", whole.own[:, at]
    yield "t", whole.words[:, at]
    yield "z", whole.logits[:, at]


def _packed(values: NDArray[Any]) -> tuple[list[float], bytes]:
    """Return scales and 16-bit numbers; integers have no scale and no sign."""
    if values.dtype.kind == "i":
        return [], values.astype("<u2").tobytes()
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(len(values), -1)
    scales = np.abs(flat).max(axis=1, initial=0) / 32767
    scales[scales == 0] = 1
    packed = np.rint(flat / scales[:, None]).astype("<i2")
    return [float(f"{scale:.9g}") for scale in scales], packed.tobytes()


def texts_for(config: ModelConfig) -> dict[str, dict[str, str]]:
    """Return a model's block descriptions by block."""
    sizes = {
        "model": config.d_model, "source": config.vocab_size, "target": config.target_vocab_size,
        "encoder_heads": config.n_heads, "decoder_heads": config.decoder_heads,
        "encoder_inner": config.d_ff, "decoder_inner": config.decoder_inner,
        "f": {"relu": "max(0, "}.get(config.activation, f"{config.activation.upper()}("),
        "norm": "Norm(" * (config.norm == "post"), "end": ")" * (config.norm == "post"),
        **_WORDS["distances" if config.positions == "relative" else "positions"],
        "scaled": f", times √{config.d_model}" if config.scale_embedding else "",
    }  # fmt: skip
    texts = {
        name: {part: text.format(**sizes) for part, text in parts.items()}
        for name, parts in _WORDS.items()
    }
    return texts | {"norm": texts[f"{config.norm}-norm"]}
