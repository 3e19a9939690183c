"""The scripts and styles of every component, for the app and for offline pages.

A component is a folder of its name, joined to one module without imports and one style sheet. Code
shared by several lives in `shared/`, of which each gets the functions that it calls.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
#: An identifier that is not a property: `...name` may call a function, `view.name` does not.
_WORD = re.compile(r"(?<!\w)(?<!(?<!\.\.)\.)\w+")
_FUNCTION = re.compile(r"^(?:async )?function (\w+)\(.*?^\}$", re.DOTALL | re.MULTILINE)


#: Each component, and the style sheets of `shared/` between `base.css` and its own.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "player": ("scale",),
    "grid": ("scale",),
    "lens": ("scale", "cells", "rows"),
    "lines": ("rows",),
    "cut": (),
    "stages": (),
    "parts": (),
    "plan": ("panel",),
    "layers": ("rows",),
    "match": ("scale", "cells"),
    "parse": ("panel",),
    "strip": (),
    "tree": (),
    "branches": (),
    "opening": (),
    "keys": (),
}

#: Mounts `component`, which every script defines (see `shown` in shared/view.js).
_EXPORT = "export default function (host) {{\nreturn shown(host, {name!r}, component);\n}}"


def element(name: str) -> str:
    """Return the element that a component draws in."""
    return f'<div class="{name} component"></div>'


def scripts(name: str) -> list[Path]:
    """Return a component's scripts in the order in which they are joined: its own name's first."""
    return sorted((_HERE / name).glob("*.js"), key=lambda path: (path.stem != name, path))


def styles(name: str) -> list[Path]:
    """Return a component's style sheets in the order in which they are joined."""
    shared = [_HERE / f"shared/{each}.css" for each in ("base", *COMPONENTS[name])]
    return [*shared, _HERE / f"{name}/{name}.css"]


@cache
def script(name: str) -> str:
    """Return a component's JavaScript as one module, with the shared functions that it calls."""
    own = f"{stripped(*scripts(name))}\n{_EXPORT.format(name=name)}"
    return "\n".join([*_called(own), own])


@cache
def style(name: str) -> str:
    """Return a component's CSS."""
    return stripped(*styles(name))


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
