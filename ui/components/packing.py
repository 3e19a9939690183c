"""Components' scripts, styles and content, and its message: a JSON header followed by raw bytes.

A component is a folder of ES modules and style sheets; `make components` bundles what `NAME.js` and
`NAME.css` import. The script sets `view.default`, which mounts the component. Streamlit resends it
with every new message, so size matters.

Streamlit passes bytes to a component untouched only if they are the whole of `data=`, so their
description precedes them:

    4 bytes   length of the header, little-endian
    header    UTF-8 JSON, padded with spaces so that the body starts at a multiple of 4
    body      raw bytes; float32 and uint32 views of it need no copy in JavaScript
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from figures.exhibit import Offline
from figures.labels import show_token
from figures.palette import CHROME, ROLES, THEMES, attention_table, scale_words, signed_table

_BUNDLES = Path(__file__).parent / "bundles"

#: All component names.
COMPONENTS = tuple(sorted(path.stem for path in _BUNDLES.glob("*.js")))


def element(name: str) -> str:
    """Return the HTML element of a component."""
    return f'<div class="{name} component" translate="no"></div>'


@cache
def script(name: str) -> str:
    """Return a component's JavaScript."""
    return (_BUNDLES / f"{name}.js").read_text("utf-8")


@cache
def style(name: str) -> str:
    """Return a component's CSS."""
    return (_BUNDLES / f"{name}.css").read_text("utf-8")


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Component(Generic[T]):
    """Content of one component, for a page or an offline file."""

    name: str  # one of `COMPONENTS`
    #: header, body: content, see `pack`
    header: Mapping[str, Any]
    body: bytes = b""
    choice: Any = None  # initial choice, as JSON returns it (lists instead of tuples)
    #: validates a choice that the browser reports and returns it, or None if it is invalid; None if
    #: the component has no choices
    parse: Callable[[Any], T | None] | None = None
    of: str = ""  # identifies the content that choices refer to; others' choices are ignored
    digest: bytes = field(init=False, default=b"")  # content digest of a component with choices

    def __post_init__(self) -> None:
        if self.parse is not None:
            object.__setattr__(self, "digest", _digest(self.header, self.body))

    def message(self) -> bytes:
        """Return the message for an offline page."""
        if self.parse is None:
            return pack(self.header, self.body)
        session = {"choice": self.choice, "count": 0, "session": "offline"}
        return pack({**self.header, **session}, self.body)

    def offline(
        self, follows: Mapping[str, bytes] = MappingProxyType({}), title: str = ""
    ) -> Offline:
        """Return the component for an offline file; see `Offline` for the arguments."""
        return Offline(self.name, self.message(), follows, title)


def _digest(header: Mapping[str, Any], body: bytes) -> bytes:
    content = hashlib.blake2b(repr(dict(header)).encode("utf-8", "replace"))
    content.update(body)
    return content.digest()


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """Return a message. Raises `ValueError` for NaN and infinities, which JSON lacks."""
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # UTF-8 cannot represent a lone surrogate, so a question mark replaces it.
    encoded = text.encode("utf-8", errors="replace")
    encoded += b" " * (-len(encoded) % 4)
    return len(encoded).to_bytes(4, "little") + encoded + body


def deflate(header: Mapping[str, Any], *parts: bytes) -> bytes:
    """Deflate a header and body parts into one message, which `inflated` in grid/kinds.js reads.

    The header is compressed as text, weights by run lengths alone, which is faster and smaller.
    Each part has its own Huffman code, so data from one distribution belong in one part.
    """
    message = pack(header, b"")
    text = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    # Flush without ending the stream: the next block continues it without back references.
    packed = [text.compress(message) + text.flush(zlib.Z_SYNC_FLUSH)]
    runs = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    packed += [runs.compress(part) + runs.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    return b"".join([*packed, runs.flush()])


def floats(arrays: Iterable[NDArray[Any]]) -> bytes:
    """Return arrays as consecutive float32 in C order."""
    return b"".join(np.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)


def labels(tokens: Iterable[str], limit: int = 24) -> list[str]:
    """Return tokens as labels of at most `limit` characters."""
    return [show_token(token, limit) for token in tokens]


def finite(value: float) -> float:
    """Round to four decimals; -inf, which JSON cannot represent, becomes a very low number."""
    return round(max(float(value), -1e6), 4)


def index_pair(value: Any, lengths: Sequence[int]) -> tuple[int, int] | None:
    """Return a reported index pair, or None unless both indices are below their lengths."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    return (value[0], value[1]) if all(map(fits, value, map(range, lengths))) else None


def index_pairs(value: Any, lengths: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """Return reported index pairs, or None unless all fit and differ."""
    if not isinstance(value, list | tuple) or len(value) > lengths[0] * lengths[1]:
        return None
    pairs = [pair for item in value if (pair := index_pair(item, lengths)) is not None]
    return tuple(pairs) if len(set(pairs)) == len(value) else None


def fits(value: Any, allowed: Any) -> bool:
    """Return True for a value of an allowed type and size; bool is not an integer.

    Args: allowed: a range of integers, a value, or a tuple of such alternatives.
    """
    if isinstance(allowed, tuple):
        return any(fits(value, option) for option in allowed)
    if isinstance(allowed, range):
        return type(value) is int and value in allowed
    return type(value) is type(allowed) and bool(value == allowed)


def fields(reported: Any, **allowed: Any) -> dict[str, Any] | None:
    """Return these fields of a reported object, or None unless all fit; a missing field is None."""
    if not isinstance(reported, Mapping):
        return None
    values = {name: reported.get(name) for name in allowed}
    return values if all(fits(values[name], allowed[name]) for name in allowed) else None


def attention_look(*, signed: bool = False, noun: str = "") -> dict[str, Any]:
    """Return header entries for drawing maps: colour scale, its reading, other colours.

    Args:
        signed: use the diverging scale, for differences.
        noun: name of a number in the maps, "" for attention weights.
    """
    cover = {theme: CHROME[theme].rule.lstrip("#") for theme in THEMES}
    reading = {theme: scale_words(theme) for theme in THEMES}
    colours = signed_colours() if signed else attention_colours()
    return {"colours": colours, "reading": reading, "cover": cover, "noun": noun, "roles": ROLES}


def attention_colours() -> dict[str, str]:
    """Return the attention scale of both themes as 256 joined "rrggbb"."""
    return {theme: attention_table(theme).tobytes().hex() for theme in THEMES}


def signed_colours() -> dict[str, str]:
    """Return the diverging scale of both themes in the same form."""
    return {theme: signed_table(theme).tobytes().hex() for theme in THEMES}
