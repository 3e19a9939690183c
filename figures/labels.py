"""Token text as labels: no markup, nothing invisible, short enough to draw.

A decoder position reads one token and predicts the next, so it has two: `row_labels` names it by
both, and every picture, table and text that shows such a row takes its name from there.

Tokens are untrusted. They may hold `<script>`, `<b>`, `$x$`, line breaks, characters that reverse
the direction of text, or hundreds of letters. `show_token` returns plain text for
`textContent` and canvas; `plotly_token` also escapes what Plotly would read as formatting.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from transformer.trace.records import Trace
from transformer.types import AttentionKind

#: Stands between what a decoder position reads and what it predicts; also in shared/rows.js.
ARROW = " → "
#: What a row's label is made of, as the title of an axis.
READS_PREDICTS = f"reads{ARROW}predicts"

#: Names of the kinds of attention (section 3.2.3).
KIND_NAMES: dict[AttentionKind, str] = {
    "encoder_self": "Encoder self-attention",
    "decoder_self": "Decoder self-attention",
    "cross": "Cross-attention",
}

_NAMED = {"\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}
_ISOLATE, _POP = "\u2068", "\u2069"  # keep a right-to-left token from reordering its neighbours
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def row_labels(reads: Sequence[str], predicts: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the labels of decoder positions: `▁weil → ▁es` reads `▁weil` and predicts `▁es`.

    Args:
        reads: [n] tokens.  predicts: [n]; empty if unknown, then a row is what it reads.
    """
    if not predicts:
        return tuple(reads)
    return tuple(f"{read}{ARROW}{next_}" for read, next_ in zip(reads, predicts, strict=True))


def query_labels(trace: Trace, kind: AttentionKind) -> tuple[str, ...]:
    """Return the labels of the rows of one kind of attention; an encoder's rows only read."""
    reads, _ = trace.axis_tokens(kind)
    return row_labels(reads, () if kind == "encoder_self" else trace.predicted_tokens)


def numbered(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return tokens as the labels of an axis, `1 ▁Hund`, told apart by their positions."""
    return tuple(f"{position} {token}" for position, token in enumerate(tokens, start=1))


def counted(n: int, start: int = 1) -> tuple[str, ...]:
    """Return `n` whole numbers as labels."""
    return tuple(map(str, range(start, start + n)))


def cell_name(cell: tuple[int | None, int | None], how: str = "mean") -> str:
    """Return the name of a layer and head, from 0; None combines all of them by `how`."""
    layer, head = (None if index is None else index + 1 for index in cell)
    over = "mean over" if how == "mean" else "maximum over"
    if layer is None and head is None:
        return f"{over} all layers and heads"
    if layer is None:
        return f"head {head}, {over} layers"
    return f"layer {layer}, {f'{over} heads' if head is None else f'head {head}'}"


def show_token(token: str, limit: int = 24) -> str:
    """Return a token as visible plain text of at most `limit` characters, plus any isolates.

    Control and direction characters become symbols or code points, an empty token becomes "∅", a
    long one loses its middle, and a right-to-left one is isolated so that it stays in place. Both
    tokens of a row's label are shown so.
    """
    return ARROW.join(_shown(each, limit) for each in token.split(ARROW))


def plain_token(token: str, limit: int = 18) -> str:
    """Return `show_token` with `_` for `▁`, which is a heavy block in most fonts."""
    return show_token(token, limit).replace("\u2581", "_")


@lru_cache(maxsize=16_384)
def _shown(token: str, limit: int) -> str:
    visible = "".join(_visible(character) for character in token) or "∅"
    if visible.isspace():
        visible = "␣" * len(visible)
    if len(visible) > limit:
        head = (limit - 1 + 1) // 2
        visible = visible[:head] + "…" + visible[len(visible) - (limit - 1 - head) :]
    if any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in visible):
        return f"{_ISOLATE}{visible}{_POP}"
    return visible


def plotly_token(token: str, limit: int = 24) -> str:
    """Return `show_token` escaped for Plotly, which parses tags, entities, and `$...$`."""
    return escape_plotly(show_token(token, limit))


def escape_plotly(text: str) -> str:
    """Escape text so that Plotly shows it unchanged."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("$", "&#36;")


def _visible(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    if category == "Cc" and ord(character) < 32:
        return chr(0x2400 + ord(character))
    if (
        category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and character != "\u200d"
    ):  # keep emoji joined
        return f"[U+{ord(character):04X}]"
    return character
