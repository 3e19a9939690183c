"""The app's name and mark, as pictures."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "logo"


@cache
def picture(name: str) -> str:
    """Return an SVG file of the logo as a `data:` URI, which Streamlit would make in every run."""
    code = b64encode((_FOLDER / f"{name}.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{code}"
