"""Text on screen: tokens as labels, numbers, and Markdown that shows text literally.

A decoder position reads one token and predicts the next. `row_labels` names it by both, for every
picture, table and text.

Tokens are untrusted: they may contain `<script>`, `<b>`, `$x$`, line breaks, characters that
reverse the text direction, or hundreds of letters. `show_token` returns plain text for
`textContent` and canvas; `plotly_token` also escapes Plotly's formatting.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from transformer.trace.records import Cells, Trace
from transformer.types import AttentionKind


def signed(value: float, digits: int = 2) -> str:
    """Return a number with a true minus sign: "−1.25", and "0.00" for -0.001."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def percent(share: float) -> str:
    """Return a share of 1 as a percentage with one digit: "93.4%", or "<0.1%"."""
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def probability(log_prob: float) -> str:
    """Return a log-probability in nats as a percentage: "62%", "4.1%" or "<0.1%"."""
    value = math.exp(log_prob)
    return "<0.1%" if value < 0.001 else f"{value:.{0 if value >= 0.0995 else 1}%}"


def count(number: int, noun: str) -> str:
    """Return a count with its noun: "1 token", "2,048 pieces"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def parameters(number: int) -> str:
    """Return a parameter count: "65.0M", or "48k" below 100,000."""
    return f"{number / 1e6:.1f}M" if number >= 100_000 else f"{number / 1e3:.0f}k"


def in_words(number: float) -> str:
    """Return a large number in three digits and a word: "28 million", "2.5 billion"."""
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:.0f}"


def decimal(number: float, digits: int = 1) -> str:
    """Return a number with some significant digits, without an exponent: "0.000002"."""
    return np.format_float_positional(number, digits, fractional=False, trim="-")


def in_bytes(count: int) -> str:
    """Format a number of bytes."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.{1 if count < 100 * size else 0}f} {unit}"
    return f"{count} bytes"


#: ASCII punctuation, which CommonMark can escape.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")

#: Word joiner: invisible, and separates text that would be parsed as one unit.
JOINER = "\u2060"

_EMOJI_CODE = re.compile(r":(?=[\w+-]+:)")

#: Places where a bare address would become a link: `https://x.y`, `www.x.y`, `a@x.y`.
_ADDRESS = re.compile(r"(?=://)|(?<=www)(?=\.)|(?<=@)(?=[\w-])", re.IGNORECASE)


def plain(text: str) -> str:
    """Return Markdown that shows `text` literally, on one line.

    Emoji codes and bare addresses are parsed after escapes, so an invisible word joiner breaks
    them; use `st.text` for text to copy.
    """
    line = _EMOJI_CODE.sub(f":{JOINER}", " ".join(text.split()))
    return _PUNCTUATION.sub(r"\\\1", _ADDRESS.sub(JOINER, line))


def code(text: str, limit: int = 60) -> str:
    """Return a Markdown code span of `text`, cut to `limit` characters with an ellipsis."""
    line = shorten(" ".join(text.split()), limit)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    # A space separates a backtick at either end from the fence; Markdown strips it.
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def one_stop(text: str) -> str:
    """Return a text without a full stop after a quotation or bold text that ends in one."""
    return re.sub(r"([.!?…](?:”|\*\*)+)\.", r"\1", text)


def shorten(text: str, limit: int) -> str:
    """Return `text`, cut to `limit` characters with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


#: Separates the tokens that a decoder position reads and predicts; also in shared/rows.js.
ARROW = " → "
#: Axis title of row labels.
READS_PREDICTS = f"reads{ARROW}predicts"

#: Names of the kinds of attention (section 3.2.3).
KIND_NAMES: dict[AttentionKind, str] = {
    "encoder_self": "Encoder self-attention",
    "decoder_self": "Decoder self-attention",
    "cross": "Cross-attention",
}

#: Name of a number in a map, by measure.
_NOUNS = {
    "weight": "attention weight", "norm": "share of the norm",
    "zeroing": "share of the change", "contribution": "share of the contribution",
    "effect": "effect in nats",
}  # fmt: skip

#: Ends of the scale of effects, negative first.
EFFECT_ENDS = ("less likely", "more likely")


def cell_noun(cells: Cells | None) -> str:
    """Return the name of a number in the maps of a trace, "" for plain attention weights."""
    if cells is None:
        return ""
    return _NOUNS[cells.measure] + ", words only" * cells.words_only


#: Names in a model with one stack.
_NAMES_OF_ONE = {"encoder_self": "Self-attention", "decoder_self": "Causal self-attention"}

_NAMED = {"\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}
_ISOLATE, _POP = "\u2068", "\u2069"  # keep a right-to-left token from reordering its neighbours
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def one_stack(trace: Trace) -> bool:
    """Return True for a trace of one text, by a model with one stack."""
    return not (trace.src_tokens and trace.tgt_tokens)


def name_of_kind(trace: Trace, kind: AttentionKind) -> str:
    """Return the name of a kind of attention in this trace."""
    return (_NAMES_OF_ONE if one_stack(trace) else KIND_NAMES).get(kind, KIND_NAMES[kind])


def texts_of(trace: Trace, kind: AttentionKind) -> tuple[str, str]:
    """Return the names of the query text and the key text of a kind."""
    if one_stack(trace):
        return "text", "text"
    queries = "source" if kind == "encoder_self" else "translation"
    return queries, "translation" if kind == "decoder_self" else "source"


def row_labels(reads: Sequence[str], predicts: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the labels of decoder positions: `▁weil → ▁es` reads `▁weil` and predicts `▁es`.

    Args: reads: [n] tokens.  predicts: [n], or empty for labels with the token read only.
    """
    if not predicts:
        return tuple(reads)
    return tuple(f"{read}{ARROW}{next_}" for read, next_ in zip(reads, predicts, strict=True))


def reads(query: str, key: str) -> str:
    """Return a cell of a map in words: `“_weil” reads “_it” to predict “_es”`."""
    reader, _, predicted = plain_token(query).partition(ARROW)
    aim = f" to predict “{predicted}”" if predicted else ""
    return f"“{reader}” reads “{plain_token(key)}”{aim}"


def query_labels(trace: Trace, kind: AttentionKind) -> tuple[str, ...]:
    """Return the row labels of one kind of attention; encoder rows predict nothing."""
    reads, _ = trace.axis_tokens(kind)
    return row_labels(reads, () if kind == "encoder_self" else trace.predicted_tokens)


def numbered(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return tokens as axis labels with their positions: `1 ▁Hund`."""
    return tuple(f"{position} {token}" for position, token in enumerate(tokens, start=1))


def counted(n: int, start: int = 1) -> tuple[str, ...]:
    """Return `n` whole numbers as labels."""
    return tuple(map(str, range(start, start + n)))


def cell_name(cell: tuple[int | None, int | None], how: str = "mean") -> str:
    """Return the name of a 0-based layer and head; None combines all of them by `how`.

    Args: how: a key of `_OVER`; "together" adds up heads before a measure, "cut" is of effects.
    """
    layer, head = (None if index is None else index + 1 for index in cell)
    both, layers, heads = _OVER[how]
    if layer is None:
        return both if head is None else f"head {head}, {layers}"
    return f"layer {layer}, {heads if head is None else f'head {head}'}"


_OVER = {
    "mean": ("mean over all layers and heads", "mean over layers", "mean over heads"),
    "max": ("maximum over all layers and heads", "maximum over layers", "maximum over heads"),
    "together": ("mean over layers, heads together", "mean over layers", "heads together"),
    "cut": ("cut in all layers and heads", "cut in all layers", "cut in all heads"),
}


def combination(cells: Cells | None, how: str = "mean") -> str:
    """Return how maps of layers and heads are combined, see `cell_name`."""
    if cells is None or cells.measure == "weight" or how != "mean":
        return how
    return "cut" if cells.signed else "together"


def show_token(token: str, limit: int = 24) -> str:
    """Return a token as visible plain text of at most `limit` characters, plus isolates.

    Control and direction characters become symbols or code points, an empty token "∅". A long token
    loses its middle. A right-to-left token is isolated, so that it stays in place. The same holds
    for both tokens of a row label.
    """
    parts = token.split(ARROW)  # long tokens are cut before they enter the cache
    return ARROW.join(
        _shown(part if len(part) <= 2 * limit else part[:limit] + part[-limit:], limit)
        for part in parts
    )


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
    category, code_point = unicodedata.category(character), ord(character)
    if category == "Cc" and code_point < 32:
        return chr(0x2400 + code_point)
    hidden = category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and character != "\u200d"  # in emoji
    return f"[U+{code_point:04X}]" if hidden else character
