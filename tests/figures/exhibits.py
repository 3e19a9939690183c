"""Example exhibits with tokens that look like code, markup or a formula."""

from typing import Any

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, Series

#: Every file must contain each of them as text.
HOSTILE = (
    "▁The",
    "<script>document.title='run'</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"quotes\" & 'more'",
    "שלום",
    "\u202egnirts",
    "e\u0301\u0302",
    "two\nlines\r\n",
    "=HYPERLINK(1)",
    "-2+3",
    "'=1",
    "$x_1$ {{7*7}} ${7}",
    "\x00\uffff\x1b",
    "\ud800",
    "",
    "l" * 200,
)


def panel(n: int = 5, m: int = 7, *, signed: bool = False, title: str = "Layer 1, head 2") -> Panel:
    rng = np.random.default_rng(n * 1_000 + m)
    weights = rng.dirichlet(np.full(m, 0.3), n).astype(np.float32)
    return Panel(
        title=title, values=rng.normal(size=(n, m)) if signed else weights,
        rows=tuple(f"▁query{i}" for i in range(n)), columns=tuple(f"▁key{j}" for j in range(m)),
        row_title="query: translation", column_title="key: source",
        scale="diverging" if signed else "attention",
    )  # fmt: skip


def rows_in(spec: Any, *fields: str, layer: int | None = None) -> list[dict[str, Any]]:
    if layer is None:
        tables = [*spec["datasets"].values()]
    else:
        data = spec["layer"][layer].get("data") or spec["data"]
        tables = [spec["datasets"][data["name"]]]
    return [row for rows in tables for row in rows if row.keys() >= set(fields)]


def hostile_panel() -> Panel:
    values = np.eye(len(HOSTILE), dtype=np.float32)
    return Panel("<b>title</b> =1+1", values, HOSTILE, HOSTILE, "query", "key")


def series() -> Series:
    x = np.arange(6) / 7
    return Series("Two waves", x, {"sin": np.sin(x), "cos": np.cos(x)}, "pos", "PE")


def bars() -> Series:
    shares = np.array([0.5, 0.3, np.nan], dtype=np.float32)
    return Series("Next token", ("▁das", "=x", "</b>"), {"p": shares}, "token", "p", "bar")


def exhibit(
    *parts: Panel | Series, offline: Offline | tuple[Offline, ...] | None = None, columns: int = 0
) -> Exhibit:
    shown = parts or (panel(),)
    weights = shown[0].values if isinstance(shown[0], Panel) else np.zeros(3)
    return Exhibit(
        name="cross-attention-layer-1", title='Cross-attention <i>of</i> "all"',
        caption="Said about it & <more>.", parts=shown,
        arrays={"weights": weights, "file": np.arange(3)},
        snippet="import numpy as np\nprint('</script><b>')\n", offline=offline, columns=columns,
    )  # fmt: skip
