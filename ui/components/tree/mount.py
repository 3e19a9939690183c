"""The tree of a beam search and its branches, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

from transformer.measures.beam import Comparison
from ui.components.mount import component
from ui.components.tree import encode_branches

_tree = component("tree")
_branches = component("branches")


def beam_tree_view(message: bytes, *, key: str, on_view_change: Callable[[], None]) -> None:
    """Mount the tree.

    Args:
        message: from `encode`.
        on_view_change: called once the user pauses; `choice_in(st.session_state[key], ...)` is the
            choice.
    """
    _tree(key=key, data=message, on_view_change=on_view_change)


def branches(comparison: Comparison, *, key: str) -> None:
    """Show two paths as rows of tokens with log-probabilities; the shared prefix once."""
    _branches(key=key, data=encode_branches(comparison))
