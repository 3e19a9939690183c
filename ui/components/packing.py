"""One message for a canvas component: a JSON header and raw bytes behind it.

Streamlit passes bytes to a component untouched only if they are the whole of `data=`, so their
description precedes them:

    4 bytes   length of the header, little-endian
    header    UTF-8 JSON, padded with spaces so that the body starts at a multiple of 4
    body      raw bytes; float32 and uint32 views of it need no copy in JavaScript
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from figures.palette import CHROME, THEMES, Bytes, attention_table, scale_words


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


def inflate(deflated: bytes) -> tuple[dict[str, Any], bytes]:
    """Undo `deflate`, as the browser does; the parts are one body."""
    message = zlib.decompress(deflated, wbits=-15)
    end = 4 + int.from_bytes(message[:4], "little")
    return json.loads(message[4:end]), message[end:]


def still(header: Mapping[str, Any], body: bytes, held: Any) -> bytes:
    """Return a message for an offline page."""
    return pack({**header, "held": held, "count": 0, "session": "still"}, body)


def attention_look() -> dict[str, Any]:
    """Return the look of maps for a header: the scale, its reading, the grey of dimmed columns."""
    cover = {theme: CHROME[theme].rule.lstrip("#") for theme in THEMES}
    reading = {theme: scale_words(theme) for theme in THEMES}
    return {"colours": attention_colours(), "reading": reading, "cover": cover}


def attention_colours() -> dict[str, str]:
    """Return the attention scale of each theme as 256 joined "rrggbb"."""
    return {theme: colours_as_text(attention_table(theme)) for theme in THEMES}


def colours_as_text(table: Bytes) -> str:
    """Return a colour table as hex digits, six per colour."""
    return table.tobytes().hex()
