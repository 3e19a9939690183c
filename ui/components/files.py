"""Component scripts and styles for the app and for offline pages.

A component is a folder of ES modules and style sheets; `make components` bundles what `NAME.js` and
`NAME.css` import. The script sets `view.default`, which mounts the component. Streamlit resends it
with every new message, so size matters.
"""

from functools import cache
from pathlib import Path

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
