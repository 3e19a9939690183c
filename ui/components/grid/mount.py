"""The grid, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformer.measures.heads import Head
from ui.components.grid import Cell, Sheet, Tab, as_tabs, content, parse_choice, parse_marks
from ui.components.mount import component, listener, message

_component = component("grid")


def attention_grid(
    shown: Sheet | Mapping[str, Tab],
    *,
    chosen: Cell,
    on_choose: Callable[[Cell], None],
    key: str,
    cell_width: int = 120,
    marked: Sequence[Head] = (),
    on_mark: Callable[[tuple[Head, ...]], None] | None = None,
    kind: str = "",
    on_kind: Callable[[str], None] | None = None,
) -> None:
    """Show every map of a kind and report the chosen one.

    Args:
        shown: the maps of one kind, or several tabs by name.
        chosen: the cell to outline if no heads are marked. A kind that lacks this layer or head
            shows all of them combined, as with None.
        on_choose: called with the new cell before the script reruns; no heads are marked then.
        cell_width: largest width of a map in pixels.
        marked: heads to outline instead of the cell, if the kind has them.
        on_mark: called with the marked heads, at least one; None disables marking.
        kind: the name of the tab to show, which must have a sheet.
        on_kind: called first, with the current tab, even if it has not changed.
    """
    tabs = as_tabs(shown)
    header, body = content(tabs, cell_width=cell_width, markable=on_mark is not None)
    held = [*chosen, [list(head) for head in marked], kind]
    # Choices made elsewhere may be reported back even if no kind has them.
    sheets = [tab.sheet for tab in tabs.values() if tab.sheet]
    layers, heads = (
        max([*sizes, *(1 + at for at in ours if at is not None)])
        for sizes, ours in (
            ([sheet.rows - 1 for sheet in sheets], [chosen[0], *(head[0] for head in marked)]),
            ([sheet.columns - 1 for sheet in sheets], [chosen[1], *(head[1] for head in marked)]),
        )
    )

    def parse(reported: Any) -> tuple[Cell, tuple[Head, ...], str] | None:
        if not isinstance(reported, list | tuple) or len(reported) != 4:
            return None
        cell = parse_choice(reported[:2], layers, heads)
        some = parse_marks(reported[2], layers, heads)
        name = reported[3] if isinstance(reported[3], str) and reported[3] in tabs else None
        return None if cell is None or some is None or name is None else (cell, some, name)

    def take(said: tuple[Cell, tuple[Head, ...], str]) -> None:
        cell, some, name = said
        if on_kind is not None:
            on_kind(name)
        if some and on_mark is not None:
            on_mark(some)
        else:
            on_choose(cell)

    data = message(key, header, body, held)
    _component(key=key, data=data, on_held_change=listener(key, parse, take))
