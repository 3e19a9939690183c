"""Write the page of a file of arrays: `python -m headlight FILE.npz OUT.html`.

`python -m transformer show FILE.npz --html OUT.html` runs this module.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from headlight import show
from transformer.errors import CheckpointError


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page. Returns the exit status: 0, or 2 after one line that states the error."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if len(arguments) != 2:
        print("usage: python -m headlight FILE.npz OUT.html", file=sys.stderr)
        return 2
    try:
        print(show(Path(arguments[0])).save(arguments[1]))
    except CheckpointError as error:
        print(f"python -m transformer show: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"python -m transformer show: {arguments[1]}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
