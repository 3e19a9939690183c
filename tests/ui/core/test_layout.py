"""Texts about a mouse have versions for touch screens."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.forks import ROOT

OF_A_MOUSE = re.compile(r"\b(?:click|hover|point at)", re.IGNORECASE)


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield all strings but docstrings."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Constant(value=str()):
                yield node
        yield from strings(node)


def test_texts_of_python_name_no_mouse() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{found.lineno}"
        for folder in ("ui", "pages")
        for path in (ROOT / folder).rglob("*.py")
        for found in strings(ast.parse(path.read_text("utf-8")))
        if OF_A_MOUSE.search(str(found.value)) and " " in str(found.value)
    ]
    assert not wrong


def test_texts_of_components_ask_which_pointer_there_is() -> None:
    wrong = []
    for path in (ROOT / "ui").rglob("*.js"):
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            quoted = re.findall(r'"[^"]*"|`[^`]*`', re.sub(r"\$\{[^}]*\}", "", line.split("//")[0]))
            named = any(OF_A_MOUSE.search(each) and " " in each for each in quoted)
            if named and "touching()" not in "".join(lines[max(0, number - 3) : number + 1]):
                wrong.append(f"{path.relative_to(ROOT)}:{number + 1}")
    assert not wrong
