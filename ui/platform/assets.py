"""Streamlit's files and forms: charts as its messages hold them, and its font."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any


def vega_lite_of(chart: Any) -> dict[str, Any]:
    """Return an Altair chart's specification, its data in Arrow's format."""
    from streamlit.elements.vega_charts import _convert_altair_to_vega_lite_spec

    spec: dict[str, Any] = _convert_altair_to_vega_lite_spec(chart)
    return spec


def font_file() -> Path | None:
    """Return the file of Source Sans; None if Streamlit is missing or has another font."""
    package = find_spec("streamlit")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "static" / "static" / "media"
    return next(iter(sorted(folder.glob("SourceSansVF-Upright*.woff2"))), None)
