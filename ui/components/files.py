"""What each component is made of in the browser: one table for the app and for offline pages.

A component is one module without imports and one style sheet. What several of them need stands in
`shared/`: of its scripts, each gets the functions that it calls. Nothing here needs Streamlit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
#: A word that is no property: `...name` calls a function, `view.name` does not.
_WORD = re.compile(r"(?<!\w)(?<!(?<!\.\.)\.)\w+")
_FUNCTION = re.compile(r"^(?:async )?function (\w+)\(.*?^\}$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Files:
    """The files of a component, in the order in which they make one.

    Attributes:
        scripts, styles: paths from the folder of this module.
        root: class of the element that the script finds; "" where it makes its own.
    """

    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    root: str


def _files(
    name: str,
    *more: str,
    styles: tuple[str, ...] = (),
    folder: str = "",
    root: bool = True,
) -> Files:
    """The files of a component that is named after its script, style, and root element.

    Args:
        more: scripts of its folder beside its own.
        styles: those of `shared/` that its own goes on from.
        folder: where that is not its name.
        root: whether it finds an element instead of making one.
    """
    folder = folder or name
    return Files(
        tuple(f"{folder}/{each}.js" for each in (name, *more)),
        (*(f"shared/{each}.css" for each in styles), f"{folder}/{name}.css"),
        name if root else "",
    )


COMPONENTS: dict[str, Files] = {
    "player": _files(
        "player", "maps", "dom", "group", "lanes", "next", "transport", "matrix", root=False
    ),
    "grid": _files("grid", "kinds", "maps", styles=("scale",)),
    "lens": _files("lens", styles=("scale", "cells")),
    "lines": _files("lines"),
    "cut": _files("cut"),
    "stages": _files("stages", "pictures", "drawing", "equations"),
    "parts": _files("parts", styles=("cells",)),
    "match": _files("match", styles=("scale", "cells")),
    "strip": _files("strip"),
    "tree": _files("tree", "draw"),
    "branches": _files("branches", folder="tree"),
    "keys": _files("keys"),
}


@cache
def script(name: str) -> str:
    """A component's JavaScript as one module: its own, and what it calls of `shared/`."""
    own = stripped(*(_HERE / each for each in COMPONENTS[name].scripts))
    return "\n".join([*_called(own), own])


@cache
def style(name: str) -> str:
    """A component's CSS."""
    return stripped(*(_HERE / each for each in COMPONENTS[name].styles))


def stripped(*paths: Path) -> str:
    """JavaScript or CSS files as one, without what only their readers need.

    Streamlit sends a component's script along with everything new that the component shows, so
    comments on lines of their own and indentation stay here. No text may therefore span lines.
    """
    return _stripped("\n".join(path.read_text("utf-8") for path in paths))


def _stripped(text: str) -> str:
    text = re.sub(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def shared_functions() -> dict[str, str]:
    """Every function of `shared/` by its name, stripped.

    Raises: `ValueError` where a file holds anything else, which no component would get.
    """
    found: dict[str, str] = {}
    for path in sorted((_HERE / "shared").glob("*.js")):
        text = path.read_text("utf-8")
        rest = "\n".join(line for line in _FUNCTION.sub("", text).splitlines() if line.strip())
        if any(not line.startswith("//") for line in rest.splitlines()):
            raise ValueError(f"{path.name} holds more than functions: {rest}")
        for match in _FUNCTION.finditer(text):
            found[match[1]] = _stripped(match[0])
    return found


def _called(own: str) -> list[str]:
    """The shared functions whose names stand in a script, and those whose names stand in them."""
    functions, called, texts = shared_functions(), dict[str, str](), [own]
    while texts:
        words = set(_WORD.findall(texts.pop()))
        new = {name: text for name, text in functions.items() if name in words - called.keys()}
        called |= new
        texts += new.values()
    return list(called.values())
