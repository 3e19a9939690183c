"""The figure of both models' positions: each side's vectors, and their difference."""

from __future__ import annotations

from collections.abc import Mapping

from figures.exhibit import Exhibit, Panel, file_stem
from transformer.measures.compare import difference
from transformer.trace.embeddings import Side as TextSide
from transformer.types import Floats
from ui.compare.programs import LETTERS, Compared
from ui.export.programs import roots_lines
from ui.positions.own import OwnPositions

#: The text that each stack reads.
STACKS: dict[str, TextSide] = {"Encoder": "source", "Decoder": "translation"}


def why_not_subtracted(left: OwnPositions, right: OwnPositions) -> str:
    """Say why two tables cannot be subtracted, in one sentence; "" if they can."""
    if left.table.shape[1] != right.table.shape[1]:
        widths = f"{left.table.shape[1]} and {right.table.shape[1]}"
        return f"Vectors of {widths} numbers have no difference."
    if len(left.table) != len(right.table):
        shorter = "A" if len(left.table) < len(right.table) else "B"
        ends = min(len(left.table), len(right.table))
        return f"{shorter}’s table ends after {ends} positions; show no more, and they compare."
    return ""


def positions_stem(stack: str) -> str:
    """Return the file's name."""
    return file_stem("compare", "positions", stack)


def positions_exhibit(
    tables: Mapping[str, OwnPositions], stack: str, n: int, compared: Compared
) -> Exhibit:
    """Return the tables and their difference.

    Args:
        tables: by letter; a side may be missing.
        stack: "Encoder" or "Decoder".  n: number of positions asked for.
    """
    parts = [_panel(f"{letter}: {own.about}", own.table) for letter, own in tables.items()]
    arrays = {f"positions_{letter.lower()}": own.table for letter, own in tables.items()}
    program = roots_lines("from transformer.translator import Translator")
    name = "src_positions" if stack == "Encoder" else "tgt_positions"
    for letter, own in tables.items():
        source = compared.sources[LETTERS.index(letter)]
        program += (
            f"model = Translator.load(path_of({source.checkpoint!r}), "
            f"device={source.device!r}).model\n"
            f"positions_{letter.lower()} = model.{name}(0, {len(own.table)})"
            ".detach().float().cpu().numpy()\n"
        )
    if len(tables) == 2 and not why_not_subtracted(tables["A"], tables["B"]):
        apart = difference(tables["A"].table, tables["B"].table)
        parts.append(_panel("A − B", apart, "difference"))
        arrays["difference"] = apart
        program += "difference = positions_a - positions_b\n"
    return Exhibit(
        name=positions_stem(stack),
        title=f"What the {stack.lower()}s add for positions 0 to {n - 1}",
        caption=f"{compared.about} One row is one position, one column a dimension (section 3.5).",
        parts=tuple(parts),
        arrays=arrays,
        snippet=program,
        columns=len(parts),
    )


def _panel(title: str, table: Floats, quantity: str = "") -> Panel:
    n, d = table.shape
    return Panel(
        title, table, tuple(map(str, range(n))), tuple(map(str, range(d))), "position",
        "dimension", "diverging", quantity,
    )  # fmt: skip
