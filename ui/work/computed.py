"""What pages compute from a model and a trace: made once, kept for every session."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from transformer.trace.records import Trace
from ui.core.view import View
from ui.work import results
from ui.work.cache import computed

__all__ = ["computed", "result_of"]

T = TypeVar("T")


def result_of(view: View, name: str, args: Hashable, make: Callable[[Any, Trace], T]) -> T:
    """`computed` without a session: for what runs in a thread of its own, such as a download."""
    result: T = results.result_of(view.request, results.Computation(name, args, make))
    return result
