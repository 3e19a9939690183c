"""One message for a canvas component: a JSON header and raw bytes behind it.

Streamlit hands bytes to a component untouched only where they are the whole of `data=`, so what
the bytes mean travels in front of them:

    4 bytes   length of the header, little-endian
    header    UTF-8 JSON, padded with spaces so that the body starts at a multiple of 4
    body      raw bytes; float32 and uint32 views of it need no copy in JavaScript
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from figures.palette import CHROME, THEMES, Bytes, attention_table


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """The message. Raises `ValueError` for NaN and infinities, which JSON cannot carry."""
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone half of a surrogate pair is not text that UTF-8 can carry; show it as missing.
    encoded = text.encode("utf-8", errors="replace")
    encoded += b" " * (-len(encoded) % 4)
    return len(encoded).to_bytes(4, "little") + encoded + body


def deflate(header: Mapping[str, Any], *parts: bytes) -> bytes:
    """A header and the parts of a body as one deflated message, for `inflated` in
    grid/kinds.js.

    The header repeats itself and is packed as text. Weights do not: of them only runs are looked
    for, which is quicker and smaller. Each part gets a code of its own, so parts that are
    distributed alike belong together.
    """
    message = pack(header, b"")
    text = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    # Flushed and not finished: what follows refers to nothing before it and goes on the stream.
    packed = [text.compress(message) + text.flush(zlib.Z_SYNC_FLUSH)]
    runs = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    packed += [runs.compress(part) + runs.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    return b"".join([*packed, runs.flush()])


def inflate(deflated: bytes) -> tuple[dict[str, Any], bytes]:
    """What `deflate` was given, the parts as one body; as the browser reads it."""
    message = zlib.decompress(deflated, wbits=-15)
    end = 4 + int.from_bytes(message[:4], "little")
    return json.loads(message[4:end]), message[end:]


def still(header: Mapping[str, Any], body: bytes, held: Any) -> bytes:
    """A message for a page without a server."""
    return pack({**header, "held": held, "count": 0, "session": "still"}, body)


def attention_look() -> dict[str, Any]:
    """The part of a header that colours maps: the scale, and the grey over dimmed columns."""
    cover = {theme: CHROME[theme].rule.lstrip("#") for theme in THEMES}
    return {"colours": attention_colours(), "cover": cover}


def attention_colours() -> dict[str, str]:
    """The attention scale of each theme as 256 "rrggbb" in a row, for a header."""
    return {theme: colours_as_text(attention_table(theme)) for theme in THEMES}


def colours_as_text(table: Bytes) -> str:
    """A colour table as hex digits, six a colour."""
    return table.tobytes().hex()
