"""Cache of rendered charts and figures, by the content of their arguments.

Building a chart takes milliseconds, and most runs of a page change few of its charts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter
from typing import ParamSpec, TypeVar, cast

from plotly.graph_objects import Figure

from figures.charts import grow
from ui.core.layout import ReadyChart, ReadyFigure, sized, text_scale
from ui.work.lru import Lru

P = ParamSpec("P")
T = TypeVar("T")

PICTURES = Lru(32 * 2**20, attrgetter("nbytes"))


def drawn(make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the chart or figure that `make` returns for these arguments, ready to draw.

    Args: make: a pure function of a module. Its arguments are compared by their content.
    """
    scale = text_scale()
    content = pickle.dumps((make.__module__, make.__qualname__, args, options, scale))

    def ready() -> ReadyChart | ReadyFigure:
        made = make(*args, **options)
        if isinstance(made, Figure):
            return ReadyFigure(grow(made, scale))
        return ReadyChart(sized(made))

    key = blake2b(content, digest_size=16).digest()
    return cast("T", PICTURES.once(key, ready))
