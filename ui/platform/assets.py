"""Serialised charts and the font of Streamlit."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any


def vega_lite_of(chart: Any) -> dict[str, Any]:
    """Return an Altair chart's specification with data in Arrow format."""
    from streamlit.elements.vega_charts import _convert_altair_to_vega_lite_spec

    spec: dict[str, Any] = _convert_altair_to_vega_lite_spec(chart)
    return spec


def font_file() -> Path | None:
    """Return the file of Source Sans, or None without it."""
    package = find_spec("streamlit")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "static" / "static" / "media"
    return next(iter(sorted(folder.glob("SourceSansVF-Upright*.woff2"))), None)
