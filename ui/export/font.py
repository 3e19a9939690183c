"""The font of the app for pages that open offline, taken from where Streamlit is installed."""

from __future__ import annotations

import base64
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def font_face() -> str:
    """Return the CSS that embeds Source Sans (Adobe, SIL Open Font License 1.1) in all weights.

    It is whole: which letters a page needs is not known before its views draw them. Without
    Streamlit, or with one that has another font, the result is empty and the page falls back to
    fonts of the system.
    """
    found = find_spec("streamlit")
    if found is None or found.origin is None:
        return ""
    folder = Path(found.origin).parent / "static" / "static" / "media"
    path = next(iter(sorted(folder.glob("SourceSansVF-Upright*.woff2"))), None)
    if path is None:
        return ""
    data = base64.b64encode(path.read_bytes()).decode()
    return (
        '@font-face { font-family: "Source Sans"; font-style: normal; font-weight: 200 900; '
        f'src: url("data:font/woff2;base64,{data}") format("woff2"); }}\n'
    )
