"""Measures of heads by name, this project's and others: functions of maps.

The modules of this package register their own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np

from transformer.errors import InputError
from transformer.types import Floats

#: Called with maps [L, H, n, m], whose rows sum to 1; returns a number for each head, [L, H].
Measure = Callable[[Floats], Any]

MEASURES: dict[str, Measure] = {}

#: Longest name of a measure, in characters.
MOST = 40


def register_measure(name: str, measure: Measure) -> None:
    """Register a measure of heads, for "Find heads" on Attention and for figures.

    Args:
        measure: called with read-only maps [L, H, n, m], rows are queries and sum to 1, later
            tokens have weight 0; returns [L, H] finite numbers. Registering a name again
            replaces its measure.

    Raises: `InputError` for an invalid name or a measure that is not callable.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > MOST or not name.isprintable():
        raise InputError(f"measure {name!r:.60}: a name is a text of 1 to {MOST} characters")
    if not callable(measure):
        raise InputError(
            f"measure “{name}”: {measure!r:.60} is not a function of maps [L, H, n, m]"
        )
    MEASURES[name] = measure


def all_measures() -> dict[str, Measure]:
    """Return the registered measures by name, this package's first."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    return MEASURES


def is_built_in(name: str) -> bool:
    """Return True if a registered measure is one of this package."""
    return str(MEASURES[name].__module__).startswith(f"{__package__}.")


def measured(name: str, maps: Floats) -> Floats:
    """Return a registered measure of maps [L, H, n, m] as [L, H].

    Raises: `InputError` if the measure is not registered, fails, or returns another shape.
    """
    if name not in all_measures():
        raise InputError(f"measure “{name}” is not registered; there are: {', '.join(MEASURES)}")
    try:
        values = np.asarray(MEASURES[name](maps), dtype=np.float32)
    except Exception as error:  # noqa: BLE001 - whatever a function from outside does
        raise InputError(f"measure “{name}” failed: {_line(error)}") from None
    shape = maps.shape[:2]
    if values.shape != shape or not np.isfinite(values).all():
        what = "NaN or infinity" if values.shape == shape else f"numbers {list(values.shape)}"
        raise InputError(
            f"measure “{name}” returned {what}; expected a finite number for each head, "
            f"{list(shape)}"
        )
    return values


def load_measures(modules: str) -> None:
    """Import modules, named with commas between them, that register measures.

    Raises: `InputError`, one line, if one cannot be imported.
    """
    for name in filter(None, map(str.strip, modules.split(","))):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever a module from outside does
            message = f"module “{name:.60}” of HEADLIGHT_MEASURES cannot be loaded: {_line(error)}"
            raise InputError(message) from None


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
