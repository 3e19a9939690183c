"""Describes stored position tables and their distance to the formula (section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from transformer.config import ModelConfig
from transformer.positions import sinusoids

#: Float32 tables differ from the formula by less than this where float32 rounds once.
ROUNDING = 2.0**-23
#: Sinusoids that were rounded to half precision differ from the formula by less than this.
HALF_ROUNDING = 5e-3


def off_formula(table: Tensor, config: ModelConfig) -> float:
    """Return the largest difference between a table [n, d_model] and the sinusoids."""
    exact = sinusoids(config, table.size(0)).to(table.device)
    return float((table.float() - exact).abs().max())


def about_stored(tables: Mapping[str, Tensor], config: ModelConfig) -> str:
    """Describe the stacks' stored tables [n, d_model] in one sentence."""
    kinds = {stack: about_table(table, config) for stack, table in tables.items()}
    contents = (
        f"it holds {next(iter(kinds.values()))}"
        if len(set(kinds.values())) == 1
        else ", ".join(f"the {stack}'s holds {kind}" for stack, kind in kinds.items())
    )
    size = " × ".join(f"{n:,}" for n in next(iter(tables.values())).shape)
    return f"The positions are a stored table of {size} numbers, not computed: {contents}."


def about_table(table: Tensor, config: ModelConfig) -> str:
    """Describe a stored table [n, d_model] in a few words."""
    off = off_formula(table, config)
    if off <= ROUNDING:
        return "exactly the sinusoids of the formula"
    distance = f"(largest difference to the formula: {off:.1e})"
    if off > HALF_ROUNDING:
        return f"no sinusoids {distance}"
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(table.to(dtype).to(table.dtype), table):
            name = str(dtype).removeprefix("torch.")
            return f"sinusoids rounded to 16 bits each, as {name} {distance}"
    return f"sinusoids of less than float32's precision {distance}"
