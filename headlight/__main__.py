"""Write the page of a file of arrays, or a gallery of worked sentences:

    python -m headlight FILE.npz OUT.html
    python -m headlight gallery --out DIR

`python -m transformer show FILE.npz --html OUT.html` runs this module.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from headlight import show
from transformer.commands.options import add_options, call
from transformer.types import CheckpointError, InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page or the gallery. Returns: 0, or 2 after one line that states the error."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["gallery"]:
        return _gallery(arguments[1:])
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


def _gallery(arguments: Sequence[str]) -> int:
    from headlight.gallery import gallery

    parser = argparse.ArgumentParser(prog="python -m headlight gallery")
    add_options(parser, gallery)
    try:
        print(call(gallery, vars(parser.parse_args(arguments))))
    except (CheckpointError, InputError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
