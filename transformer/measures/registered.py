"""Registry of head measures by name; modules in this package register theirs on import."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np

from transformer.types import Floats, InputError

#: Called with maps [L, H, n, m], whose rows sum to 1; returns one number per head, [L, H].
Measure = Callable[[Floats], Any]

MEASURES: dict[str, Measure] = {}

#: Maximum length of a measure name in characters.
MOST = 40


def register_measure(name: str, measure: Measure) -> None:
    """Register a head measure for "Find heads" on Attention and for figures.

    Registering a name again replaces its measure.

    Args: measure: called with read-only maps [L, H, n, m]: rows are queries and sum to 1, masked
        keys have weight 0. Returns finite numbers [L, H].

    Raises: `InputError` if the name is invalid or the measure is not callable.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > MOST or not name.isprintable():
        raise InputError(f"measure name {name!r:.60}; expected 1 to {MOST} printable characters")
    if not callable(measure):
        raise InputError(
            f"measure “{name}” is {measure!r:.60}; expected a function of maps [L, H, n, m]"
        )
    MEASURES[name] = measure


def all_measures() -> dict[str, Measure]:
    """Return registered measures by name, built-in measures first."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    return MEASURES


def is_built_in(name: str) -> bool:
    """Return True if a registered measure is built in."""
    return str(MEASURES[name].__module__).startswith(f"{__package__}.")


def measured(name: str, maps: Floats) -> Floats:
    """Apply a registered measure to maps [L, H, n, m] and return [L, H].

    Raises: `InputError` if the measure is not registered, fails, or returns an invalid array.
    """
    if name not in all_measures():
        raise InputError(f"unknown measure “{name}”; expected one of {', '.join(MEASURES)}")
    try:
        values = np.asarray(MEASURES[name](maps), dtype=np.float32)
    except Exception as error:  # noqa: BLE001 - external code may raise anything
        raise InputError(f"measure “{name}” failed: {_line(error)}") from None
    shape = maps.shape[:2]
    if values.shape != shape or not np.isfinite(values).all():
        problem = "NaN or infinity" if values.shape == shape else f"shape {list(values.shape)}"
        raise InputError(f"measure “{name}” returned {problem}; expected finite {list(shape)}")
    return values


def load_measures(modules: str) -> None:
    """Import comma-separated modules that register measures.

    Raises: `InputError` if a module cannot be imported.
    """
    for name in filter(None, map(str.strip, modules.split(","))):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 - external code may raise anything
            message = f"module “{name:.60}” in HEADLIGHT_MEASURES failed to import: {_line(error)}"
            raise InputError(message) from None


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
