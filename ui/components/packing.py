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
from pathlib import Path
from typing import Any

import streamlit as st

from figures.palette import CHROME, THEMES, Bytes, attention_table


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """The message. Raises `ValueError` for NaN and infinities, which JSON cannot carry."""
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone half of a surrogate pair is not text that UTF-8 can carry; show it as missing.
    encoded = text.encode("utf-8", errors="replace")
    encoded += b" " * (-len(encoded) % 4)
    return len(encoded).to_bytes(4, "little") + encoded + body


def deflate(body: bytes) -> bytes:
    """A body for `unpackDeflated` in shared.js; runs only, which suits maps and costs little."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    return packer.compress(body) + packer.flush()


def script(path: Path) -> str:
    """A component's JavaScript with what all components share in front of it."""
    shared = Path(__file__).with_name("shared.js").read_text("utf-8")
    return f"{shared}\n{path.read_text('utf-8')}"


def component(name: str, folder: Path) -> Any:
    """A component whose script, style and root element are named after its folder."""
    return st.components.v2.component(
        f"headlight.{name}",
        html=f'<div class="{name}"></div>',
        css=(folder / f"{name}.css").read_text("utf-8"),
        js=script(folder / f"{name}.js"),
    )


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
