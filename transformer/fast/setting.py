"""What the environment says about ways of multiplying; needs no PyTorch to be looked at."""

from __future__ import annotations

import os

from transformer.errors import InputError

#: "measured", or "usual" for ways that depend on a matrix's size alone.
VARIABLE = "HEADLIGHT_PRODUCTS"


def is_measured() -> bool:
    """Return whether ways are measured. Raises: `InputError`, one line, for an unknown value."""
    wanted = os.environ.get(VARIABLE, "").strip() or "measured"
    if wanted not in ("measured", "usual"):
        raise InputError(f"{VARIABLE}={wanted[:20]}: must be measured or usual")
    return wanted == "measured"
