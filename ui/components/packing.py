"""A component's content, and its message: a JSON header and raw bytes behind it.

Streamlit passes bytes to a component untouched only if they are the whole of `data=`, so their
description precedes them:

    4 bytes   length of the header, little-endian
    header    UTF-8 JSON, padded with spaces so that the body starts at a multiple of 4
    body      raw bytes; float32 and uint32 views of it need no copy in JavaScript
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from figures.exhibit import Offline
from figures.labels import show_token
from figures.palette import CHROME, THEMES, attention_table, scale_words, signed_table

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Component(Generic[T]):
    """Content of one component, for a page or offline."""

    name: str  # in `ui.components.files`
    #: header, body: the content, see `pack`
    header: Mapping[str, Any]
    body: bytes = b""
    choice: Any = None  # the choice to open with, as JSON returns it (lists, no tuples)
    #: returns a choice that the browser reports, or None if it is invalid: browser input is not
    #: trusted. None for a component without choices.
    parse: Callable[[Any], T | None] | None = None
    #: names what is chosen in: a choice in one thing is not taken for one in another
    of: str = ""

    @cached_property
    def digest(self) -> bytes:
        """The content's digest."""
        content = hashlib.blake2b(repr(dict(self.header)).encode("utf-8", "replace"))
        content.update(self.body)
        return content.digest()

    def message(self) -> bytes:
        """Return the message for an offline page."""
        if self.parse is None:
            return pack(self.header, self.body)
        session = {"choice": self.choice, "count": 0, "session": "offline"}
        return pack({**self.header, **session}, self.body)

    def offline(
        self, follows: Mapping[str, bytes] = MappingProxyType({}), title: str = ""
    ) -> Offline:
        """Return the component for an offline page; see `Offline` for the arguments."""
        return Offline(self.name, self.message(), follows, title)


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """Return the message. Raises `ValueError` for NaN and infinities, which JSON lacks."""
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # UTF-8 cannot represent a lone surrogate; it becomes a question mark.
    encoded = text.encode("utf-8", errors="replace")
    encoded += b" " * (-len(encoded) % 4)
    return len(encoded).to_bytes(4, "little") + encoded + body


def deflate(header: Mapping[str, Any], *parts: bytes) -> bytes:
    """Deflate a header and the parts of a body into one message, for `inflated` in grid/kinds.js.

    The header is repetitive and packed as text. Weights are packed by runs alone, which is faster
    and smaller. Each part has its own code, so data of one distribution belong in one part.
    """
    message = pack(header, b"")
    text = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    # Flushed, not finished: the next block continues the stream without back references.
    packed = [text.compress(message) + text.flush(zlib.Z_SYNC_FLUSH)]
    runs = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    packed += [runs.compress(part) + runs.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    return b"".join([*packed, runs.flush()])


def floats(arrays: Iterable[NDArray[Any]]) -> bytes:
    """Return arrays as consecutive float32, each in C order."""
    return b"".join(np.ascontiguousarray(each, dtype="<f4").tobytes() for each in arrays)


def labels(tokens: Iterable[str], limit: int = 24) -> list[str]:
    """Return tokens as labels of at most `limit` characters."""
    return [show_token(token, limit) for token in tokens]


def finite(value: float) -> float:
    """Round to four decimals; -inf, which JSON cannot represent, becomes a very low number."""
    return round(max(float(value), -1e6), 4)


def is_index(value: Any, length: int) -> TypeGuard[int]:
    """Return True for an integer from 0 to `length - 1`; False for other types, also bool."""
    return type(value) is int and 0 <= value < length


def index_pair(value: Any, lengths: Sequence[int]) -> tuple[int, int] | None:
    """Return two reported indices, or None unless each is below its length."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    one, other = value
    return (one, other) if is_index(one, lengths[0]) and is_index(other, lengths[1]) else None


def index_pairs(value: Any, lengths: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """Return a list of reported pairs of indices, or None unless each fits and none comes twice."""
    if not isinstance(value, list | tuple) or len(value) > lengths[0] * lengths[1]:
        return None
    found = [pair for each in value if (pair := index_pair(each, lengths)) is not None]
    return tuple(found) if len(set(found)) == len(value) else None


def fits(value: Any, wanted: Any) -> bool:
    """Return True for a value of the wanted type and size.

    Args: wanted: a range of integers, a value, or a tuple of alternatives of these.
    """
    if isinstance(wanted, tuple):
        return any(fits(value, each) for each in wanted)
    if isinstance(wanted, range):
        return type(value) is int and value in wanted
    return type(value) is type(wanted) and bool(value == wanted)


def fields(reported: Any, **wanted: Any) -> dict[str, Any] | None:
    """Return these fields of a reported object, or None unless each fits; others are ignored.

    A field that is missing is None.
    """
    if not isinstance(reported, Mapping):
        return None
    found = {name: reported.get(name) for name in wanted}
    return found if all(fits(value, wanted[name]) for name, value in found.items()) else None


def attention_look(*, signed: bool = False) -> dict[str, Any]:
    """Return the look of maps for a header: the scale, its reading, the grey of dimmed columns.

    `signed` is for differences.
    """
    cover = {theme: CHROME[theme].rule.lstrip("#") for theme in THEMES}
    reading = {theme: scale_words(theme) for theme in THEMES}
    colours = signed_colours() if signed else attention_colours()
    return {"colours": colours, "reading": reading, "cover": cover}


def attention_colours() -> dict[str, str]:
    """Return the attention scale of each theme as 256 joined "rrggbb"."""
    return {theme: attention_table(theme).tobytes().hex() for theme in THEMES}


def signed_colours() -> dict[str, str]:
    """Return the diverging scale of each theme, in the same form."""
    return {theme: signed_table(theme).tobytes().hex() for theme in THEMES}
