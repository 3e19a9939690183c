"""Exhibits of the Positions page: values, names, and the programs that compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from figures.exhibit import Exhibit, Panel, Series
from transformer.types import Floats

_IMPORTS = "import numpy as np\n\nfrom transformer.positions import shift_matrix, sinusoidal\n\n"


def _indices(n: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(n))


def table_exhibit(table: Floats, layout: str) -> Exhibit:
    """Build the figure of the first positions' encoding, [n, d_model]."""
    n, d_model = table.shape
    return Exhibit(
        name="positions",
        title=f"Sinusoidal positions, d_model {d_model}, {layout}",
        caption="One row is one position, one column a dimension (section 3.5).",
        parts=(
            Panel(
                "PE", table, _indices(n), _indices(d_model), "position", "dimension", "diverging"
            ),
        ),
        arrays={"table": table},
        snippet=f"{_IMPORTS}table = sinusoidal({n}, {d_model}, layout={layout!r}).numpy()\n",
    )


def curves_exhibit(
    table: Floats, dimensions: Sequence[int], labels: Sequence[str], layout: str
) -> Exhibit:
    """Build the figure of single dimensions along the positions; with none chosen, the first."""
    chosen = list(dimensions) or [0]
    names = list(labels) or ["0"]
    n, d_model = table.shape
    lines = {name: table[:, i] for name, i in zip(names, chosen, strict=True)}
    return Exhibit(
        name="positions-dimensions",
        title="Dimensions of the encoding along the positions",
        caption="Each dimension is a wave (section 3.5).",
        parts=(Series("value", np.arange(n), lines, "position", "value"),),
        arrays={"curves": table[:, chosen]},
        snippet=(
            f"{_IMPORTS}table = sinusoidal({n}, {d_model}, layout={layout!r}).numpy()\n"
            f"curves = table[:, {chosen!r}]\n"
        ),
    )


def products_exhibit(
    table: Floats, by_offset: Floats, starts: Sequence[int], layout: str
) -> Exhibit:
    """Build the figure of PE times its transpose, and of dot products by offset."""
    n, d_model = table.shape
    n_offsets = len(by_offset)
    lines = {f"from position {start}": by_offset[:, i] for i, start in enumerate(starts)}
    names = _indices(n)
    return Exhibit(
        name="positions-products",
        title=f"Dot products of positions, d_model {d_model}",
        caption="The product depends on the distance alone (section 3.5).",
        parts=(
            Panel("PE · PE", table @ table.T, names, names, "position", "position", "diverging"),
            Series("by offset", np.arange(n_offsets), lines, "offset k", "PE(pos) · PE(pos + k)"),
        ),
        arrays={"products": table @ table.T, "by_offset": by_offset},
        snippet=(
            f"{_IMPORTS}table = sinusoidal({n}, {d_model}, layout={layout!r}).numpy()\n"
            "products = table @ table.T\n"
            f"runs = [sinusoidal({n_offsets}, {d_model}, start=start).numpy() "
            f"for start in {list(starts)!r}]\n"
            "by_offset = np.stack([run @ run[0] for run in runs], axis=1)\n"
        ),
    )


def shift_exhibit(
    before: Floats, after: Floats, expected: Floats, pos: int, k: int, layout: str
) -> Exhibit:
    """Build the figure of the pairs of PE(pos) rotated by M_k, and those of PE(pos + k): [P, 2]."""
    pairs = np.arange(len(before))
    d_model = 2 * len(before)
    as_pairs = "reshape(-1, 2)" if layout == "interleaved" else "reshape(2, -1).T"
    lines = {"sin at pos": before[:, 0], "sin after the turn": after[:, 0],
             "cos at pos": before[:, 1], "cos after the turn": after[:, 1]}  # fmt: skip
    return Exhibit(
        name="positions-shift",
        title=f"PE({pos}) turned by M_k, k = {k}",
        caption="M_k turns every (sin, cos) pair by k ω and lands on PE(pos + k) (section 3.5).",
        parts=(Series("pairs", pairs, lines, "pair i", "value"),),
        arrays={"before": before, "after": after, "expected": expected},
        snippet=(
            f"{_IMPORTS}pos, k, d_model, layout = {pos}, {k}, {d_model}, {layout!r}\n"
            "turn = shift_matrix(k, d_model, layout=layout)\n"
            "here, there = (\n"
            "    sinusoidal(1, d_model, start=at, layout=layout)[0] for at in (pos, pos + k)\n"
            ")\n"
            f"before = here.numpy().{as_pairs}\n"
            f"after = (turn @ here.double()).float().numpy().{as_pairs}\n"
            f"expected = there.numpy().{as_pairs}\n"
        ),
    )


def beyond_exhibit(
    values: Floats, names: Sequence[str], pairs: Sequence[int], d_model: int, header: str
) -> Exhibit:
    """Build the figure of curves on both sides of the longest training length.

    Args:
        values: [2 limit, C], the sines of `pairs`, then curves of the tables, if any.
        header: Python that defines `translator`; used if there are tables.
    """
    limit = len(values) // 2
    tables, start = "{}", "import numpy as np\n\n"
    if len(names) > len(pairs):
        tables, start = "position_vectors.tables_of(translator.model)", header + "\n"
    program = (
        f"{start}from transformer.trace import position_vectors\n\n"
        f"tables = {tables}\n"
        f"curves, names = position_vectors.around({limit}, {d_model}, tables)\n"
    )
    lines = {name: values[:, i] for i, name in enumerate(names)}
    return Exhibit(
        name="positions-beyond",
        title=f"Positions beyond {limit}",
        caption=f"Training reached position {limit - 1}; later ones take values never seen.",
        parts=(Series("value", np.arange(len(values)), lines, "position", "value"),),
        arrays={"curves": values},
        snippet=program,
    )


def learned_exhibit(tables: Mapping[str, Floats], side: str, header: str) -> Exhibit:
    """Build the figure of cosine similarities of learned positions, beside those of sinusoids.

    Args:
        tables: "learned" and "formula", each [n, n].
        side: "Encoder" or "Decoder".
        header: Python that defines `translator`.
    """
    n = len(tables["learned"])
    names = _indices(n)
    attribute = "src_positions" if side == "Encoder" else "tgt_positions"
    return Exhibit(
        name="positions-learned",
        title=f"Learned positions of the {side.lower()}",
        caption="Cosine similarity, beside that of sinusoids of the same size (table 3, row E).",
        parts=tuple(
            Panel(title, values, names, names, "position", "position", "diverging")
            for title, values in tables.items()
        ),
        arrays=dict(tables),
        snippet=(
            f"{_IMPORTS}{header}"
            "\nfrom figures.positions import cosines\n\n"
            f"rows = translator.model.{attribute}.table.detach().float().cpu().numpy()[:{n}]\n"
            "learned = cosines(rows)\n"
            "even = rows.shape[1] + rows.shape[1] % 2\n"
            "formula = cosines(sinusoidal(len(rows), even).numpy())\n"
        ),
    )


def stored_exhibit(table: Floats, exact: Floats, side: str, about: str, header: str) -> Exhibit:
    """Build the figure of a stored table, the formula, and their difference.

    Args:
        table, exact: [n, d_model].
        side: "Encoder" or "Decoder".  about: what kind of table it is.
        header: Python that defines `translator`.
    """
    n, d_model = table.shape
    names = (_indices(n), _indices(d_model), "position", "dimension")
    attribute = "src_positions" if side == "Encoder" else "tgt_positions"
    return Exhibit(
        name="positions-stored",
        title=f"Stored positions of the {side.lower()}",
        caption=about,
        parts=(
            Panel("stored", table, *names, "diverging"),
            Panel("stored less formula", table - exact, *names, "diverging", "difference"),
        ),
        arrays={"stored": table, "formula": exact, "difference": table - exact},
        snippet=(
            f"{header}"
            "\nfrom transformer.positions import sinusoids\n\n"
            f"model = translator.model\n"
            f"stored = model.{attribute}.table[:{n}].detach().float().cpu().numpy()\n"
            f"formula = sinusoids(model.config, {n}).numpy()\n"
            "difference = stored - formula\n"
        ),
    )


def distances_exhibit(numbers: Floats, distances: Sequence[int], side: str, header: str) -> Exhibit:
    """Build the figure of what relative positions add, by head and distance.

    Args:
        numbers: [H, n].  distances: [n], key less query.
        side: "Encoder" or "Decoder".  header: Python that defines `translator`.
    """
    heads = tuple(str(head) for head in range(1, len(numbers) + 1))
    return Exhibit(
        name="positions-relative",
        title=f"What distances add to the {side.lower()}'s logits",
        caption="Each head of self-attention adds a trained number for the distance from query to "
        "key, the same in every layer (Raffel et al. 2020).",
        parts=(
            Panel(
                "added", numbers, heads, tuple(map(str, distances)), "head", "distance",
                "diverging", "added",
            ),
        ),
        arrays={"numbers": numbers, "distances": np.array(distances)},
        snippet=(
            f"{header}"
            "\nimport numpy as np\n\n"
            "from transformer.trace.position_vectors import distance_numbers\n\n"
            f"distances = np.arange({distances[0]}, {distances[-1] + 1})\n"
            f"numbers = distance_numbers(translator.model, distances)[{side!r}]\n"
        ),
    )  # fmt: skip


def within_rows(values: Floats, mask: NDArray[np.bool_]) -> float:
    """Return how much a map varies among the keys of a query: the RMS deviation from row means.

    A constant added to a whole row does not change its softmax.
    """
    seen = np.where(mask, values.astype(np.float64), np.nan)
    around = seen - np.nanmean(seen, axis=1, keepdims=True)
    return float(np.sqrt(np.nanmean(around**2)))
