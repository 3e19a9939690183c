"""The scripts and styles of every component, for the app and for offline pages.

A component is one module without imports and one style sheet. Code shared by several lives in
`shared/`, of which each gets the functions that it calls. Nothing here needs Streamlit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
#: An identifier that is not a property: `...name` may call a function, `view.name` does not.
_WORD = re.compile(r"(?<!\w)(?<!(?<!\.\.)\.)\w+")
_FUNCTION = re.compile(r"^(?:async )?function (\w+)\(.*?^\}$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Files:
    """The files of a component, in the order in which they are joined.

    Attributes:
        scripts, styles: paths relative to this module's folder.
        root: classes of the element that the script looks up; "" if it creates its own.
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
    """Return the files of a component whose script, style and root element share its name.

    Args:
        more: further scripts in its folder.
        styles: style sheets of `shared/`, placed between `base.css` and its own.
        folder: its folder, if not its name.
        root: whether it looks up an element instead of creating one.
    """
    folder = folder or name
    return Files(
        tuple(f"{folder}/{each}.js" for each in (name, *more)),
        (*(f"shared/{each}.css" for each in ("base", *styles)), f"{folder}/{name}.css"),
        f"{name} component" if root else "",
    )


COMPONENTS: dict[str, Files] = {
    "player": _files(
        "player", "maps", "dom", "group", "lanes", "shift", "next", "transport", "matrix",
        styles=("scale",), root=False,
    ),
    "grid": _files("grid", "kinds", "maps", styles=("scale",)),
    "lens": _files("lens", styles=("scale", "cells", "rows")),
    "lines": _files("lines", styles=("rows",)),
    "cut": _files("cut"),
    "stages": _files("stages", "pictures", "divisor", "drawing", "equations"),
    "parts": _files("parts"),
    "plan": _files("plan", "layout", "panel", "travel", styles=("panel",)),
    "match": _files("match", styles=("scale", "cells")),
    "parse": _files("parse", styles=("panel",)),
    "strip": _files("strip"),
    "tree": _files("tree", "draw"),
    "branches": _files("branches", folder="tree"),
    "opening": _files("opening", "light", root=False),
    "keys": _files("keys"),
}  # fmt: skip


@cache
def script(name: str) -> str:
    """Return a component's JavaScript as one module, with the shared functions that it calls."""
    own = stripped(*(_HERE / each for each in COMPONENTS[name].scripts))
    return "\n".join([*_called(own), own])


@cache
def style(name: str) -> str:
    """Return a component's CSS."""
    return stripped(*(_HERE / each for each in COMPONENTS[name].styles))


def stripped(*paths: Path) -> str:
    """Join JavaScript or CSS files, without whole-line comments and indentation.

    Streamlit sends a component's script again with every new message, so size counts. String
    literals must therefore not span lines.
    """
    return _stripped("\n".join(path.read_text("utf-8") for path in paths))


def _stripped(text: str) -> str:
    text = re.sub(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def shared_functions() -> dict[str, str]:
    """Return every function of `shared/` by name, stripped.

    Raises: `ValueError` if a file contains anything else, which no component would receive.
    """
    functions: dict[str, str] = {}
    for path in sorted((_HERE / "shared").glob("*.js")):
        text = path.read_text("utf-8")
        rest = "\n".join(line for line in _FUNCTION.sub("", text).splitlines() if line.strip())
        if any(not line.startswith("//") for line in rest.splitlines()):
            raise ValueError(f"{path.name} holds more than functions: {rest}")
        for match in _FUNCTION.finditer(text):
            functions[match[1]] = _stripped(match[0])
    return functions


def _called(own: str) -> list[str]:
    """Return the shared functions named in a script, and those named in these, recursively."""
    functions, called, texts = shared_functions(), dict[str, str](), [own]
    while texts:
        words = set(_WORD.findall(texts.pop()))
        new = {name: text for name, text in functions.items() if name in words - called.keys()}
        called |= new
        texts += new.values()
    return list(called.values())
