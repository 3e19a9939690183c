"""The app in a world that a test changes: its clock jumps, and killed workers are replaced at once.

    python -m tests.pages.faulty_server CLOCK [OPTIONS OF STREAMLIT]

CLOCK is a file with the seconds by which the clock of this process is wrong.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from streamlit.web import cli

from transformer.worker import process


def jump(file: Path) -> None:
    """Falsify every reading of the clock but the monotonic one."""
    seconds, nanoseconds = time.time, time.time_ns

    def wrong() -> float:
        try:
            return float(file.read_text() or 0)
        except OSError:
            return 0.0

    time.time = lambda: seconds() + wrong()
    time.time_ns = lambda: nanoseconds() + int(wrong()) * 10**9


if __name__ == "__main__":
    jump(Path(sys.argv[1]))
    process._PAUSE = 0.2
    sys.argv = ["streamlit", "run", "app.py", *sys.argv[2:]]
    cli.main()
