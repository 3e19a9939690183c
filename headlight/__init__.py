"""Attention maps in a notebook or a page, in two lines:

    from headlight import show
    show("sentence.npz")

`show` takes a path, a `transformer.trace.records.Trace`, arrays by name (docs/arrays.md), or a
figure, and returns a view that a notebook displays without a server, a network or Streamlit. Every
figure of the app is a function of this module, see `figures`; downloaded programs call the same:

    headlight.attention(trace, kind="cross", layer=2, head=1).save("attention.pdf")
"""

from collections.abc import Callable, Mapping
from functools import cache, wraps
from html import escape
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from figures.exhibit import Exhibit
from transformer.measures.registered import register_measure
from transformer.models.arrays.trace_file import load_arrays, load_measured, trace_of
from transformer.trace.records import CellMeasure, Trace
from ui import __name__ as _UI
from ui import __path__ as _PATH

__all__ = ["Page", "figures", "page_of", "register_measure", "show"]


@cache
def figures() -> Mapping[str, Callable[..., Exhibit]]:
    """Return all functions that make a figure, by name.

    They are the functions in modules named `exhibits` that return an `Exhibit`, except for the
    app's own, whose names contain that word.
    """
    names = (module.name for module in walk_packages(_PATH, f"{_UI}."))
    modules = [import_module(name) for name in names if name.endswith("exhibits")]
    return {
        name: function
        for module in modules for name, function in getmembers(module, isfunction)
        if function.__module__ == module.__name__ and name[0] != "_" and "exhibit" not in name
        and function.__annotations__.get("return") in (Exhibit, "Exhibit")
    }  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a function that makes a figure, or saves one."""
    if name == "save":
        from ui.export.html import save

        return save
    if name[:1] != "_":
        function = figures().get(name) or _of_pages().get(name)
        if function is not None:
            return _saving(function)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _of_pages() -> Mapping[str, Callable[..., Exhibit]]:
    """Return the figures of pages, which an installed package does not have."""
    if not Path(__file__).parents[1].joinpath("pages").is_dir():
        return {}
    from ui.frame.page import all_pages

    return {page.figure.__name__: page.figure for page in all_pages() if page.figure}


class Figure(Exhibit):
    """A figure of this module."""

    def save(self, path: str | Path) -> Path:
        """Write it in the format of the extension, such as .pdf or .html. Returns: the path."""
        from ui.export.html import save

        return save(self, path)


def _saving(function: Callable[..., Exhibit]) -> Callable[..., Figure]:
    @wraps(function)
    def figure(*args: Any, **options: Any) -> Figure:
        from headlight.arguments import check_arguments

        check_arguments(function, *args, **options)
        return Figure(**vars(function(*args, **options)))

    return figure


class Page:
    """A trace as one self-contained page of HTML, which notebooks display."""

    def __init__(self, html: bytes, height: int) -> None:
        self.html, self.height = html, height

    def _repr_html_(self) -> str:
        """Return the page in a sandboxed frame that may only run its script."""
        text = escape(self.html.decode("utf-8"), quote=True)
        return (
            f'<iframe srcdoc="{text}" sandbox="allow-scripts" width="100%" '
            f'height="{self.height}" style="border: 0" title="Attention maps"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, which opens offline in any browser. Returns: the path."""
        path = Path(path)
        path.write_bytes(self.html)
        return path


def show(
    what: Exhibit | Trace | str | Path | Mapping[str, Any], *, name: str = "", batch: int | None =
    None, height: int = 760, cell: CellMeasure = "weight", model: Any = None,
) -> Page:  # fmt: skip
    """Return a figure, or all attention of a trace, as one page, which a notebook displays.

    Args:
        what: a figure, a trace, the path of an .npz file, or arrays by name (see docs/arrays.md),
            such as the output of a model or of `generate` of the transformers library.
        name: origin stated on the page; by default the file's name.
        batch: which sentence of arrays with an axis for it, or result of `generate`, to show. A
            text `axes` among the arrays names their axes, such as "batch, query, key".
        height: of the frame in a notebook, in pixels.
        cell: measure that a trace's maps show; `model` made the trace. A file shows its own, see
            `python -m transformer trace --cell`.

    Raises: `CheckpointError`, one line naming the array and what is allowed; `TypeError` for
        any other argument; `ValueError` for a height out of range,
            or a batch or a measure of something without one; `InputError` for an unknown measure.
    """
    if isinstance(height, bool) or not isinstance(height, int) or not 100 <= height <= 10_000:
        raise ValueError(f"height {height!r} is not a whole number from 100 to 10000")
    if cell != "weight" and not (isinstance(what, Trace) and model):
        raise ValueError(f"cell={cell!r} needs a trace and its model: show(trace, model=model)")
    if isinstance(what, Trace) and model:
        from transformer.attribution.cells import measured  # a file is shown without PyTorch

        what = measured(model, what, cell)
    return Page(page_of(what, name, batch), height)


def page_of(
    what: Exhibit | Trace | str | Path | Mapping[str, Any], name: str = "", batch: int | None = None
) -> bytes:
    """Return the page of `show`, as UTF-8."""
    from headlight.page import trace_exhibit
    from ui.export.html import to_html

    snippet = ""
    if batch is not None and isinstance(what, Exhibit | Trace):
        raise ValueError(f"batch={batch!r}: a figure or trace is of one sentence; leave it out")
    if isinstance(what, Exhibit):
        return to_html(what)
    if isinstance(what, Trace):
        trace, called = what, "a trace"
    elif isinstance(what, str | Path):
        trace, called = load_measured(what, load_arrays(what, batch)), Path(what).name
        snippet = _PROGRAM.format(path=str(called))
    elif isinstance(what, Mapping):
        trace, called = trace_of(what, batch=batch), "arrays"
    else:
        raise TypeError(
            "show takes a figure, a Trace, a path or arrays by name, such as {'attention': maps}, "
            f"not {type(what).__name__}"
        )
    return to_html(trace_exhibit(trace, name or called, snippet))


_PROGRAM = """from transformer.models.arrays.trace_file import load_arrays

trace = load_arrays({path!r})
for kind in ("encoder_self", "decoder_self", "cross"):
    print(kind, trace.attention(kind).shape)  # [layers, heads, queries, keys]
"""
