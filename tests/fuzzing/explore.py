"""Fuzzing by coverage: `python -m tests.fuzzing.explore TARGET FOLDER CASES SEED`, with atheris.

What breaks the reader is left in FOLDER, named after what went wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["transformer", "figures", "ui.core"]):
    from tests.fuzzing.targets import Bench, check


def main() -> None:
    """Run one target."""
    name, where, cases, seed = sys.argv[1:]
    folder = Path(where)
    bench = folder / f"bench-{seed}"  # the corpus goes on from seed to seed
    bench.mkdir()
    (folder / "corpus").mkdir(exist_ok=True)
    target = Bench(bench)[name]
    for number, example in enumerate(target.examples):
        (folder / "corpus" / str(number)).write_bytes(example)
    longest = 2 * max(map(len, target.examples)) + 100
    options = [
        f"-runs={cases}", f"-seed={seed}", f"-max_len={longest}", f"-artifact_prefix={folder}/",
        "-timeout=60", "-rss_limit_mb=4096", str(folder / "corpus"),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], lambda data: check(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
