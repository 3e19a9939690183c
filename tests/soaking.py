"""Length of a soak test, and the file for its results."""

import json
import os

#: `make soak LONG=1`: the whole of it.
LONG = os.environ.get("HEADLIGHT_SOAK") == "long"

#: What trials are drawn from; `make soak SOAK_SEED=5` repeats them.
SEED = int(os.environ.get("HEADLIGHT_SOAK_SEED") or 1)

#: `make soak FUZZ_SECONDS=60`: the processor seconds for which inputs of each kind are broken at
#: least; 0 for none beyond the number of cases.
FUZZ_SECONDS = float(os.environ.get("HEADLIGHT_FUZZ_SECONDS") or 0)

#: File to which figures are added, a line of JSON each; "" for none.
_FIGURES = os.environ.get("HEADLIGHT_SOAK_FIGURES", "")


def note(**figures: object) -> None:
    line = json.dumps(figures)
    print(line)
    if _FIGURES:
        with open(_FIGURES, "a", encoding="utf-8") as file:
            file.write(line + "\n")
