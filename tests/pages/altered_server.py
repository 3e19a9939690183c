"""The app in a world that a test changes.

    python -m tests.pages.altered_server clock FILE [OPTIONS OF STREAMLIT]
    python -m tests.pages.altered_server cache FILE BYTES [OPTIONS OF STREAMLIT]

clock: FILE holds the seconds by which the clock is wrong, and killed workers are replaced at once.
cache: the cache holds so many bytes. FILE gets one line of JSON, updated while the app runs: the
most bytes that it ever held.
"""

import json
import sys
import threading
import time
from pathlib import Path

from streamlit.web import cli

from transformer.worker import process
from ui.work.results import CACHE


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


def watch(file: Path) -> None:
    most = 0
    while True:
        most = max(most, CACHE.nbytes)
        partly = file.with_suffix(".part")
        partly.write_text(json.dumps({"most": most}))
        partly.replace(file)
        time.sleep(0.1)


if __name__ == "__main__":
    _, change, file, *options = sys.argv
    if change == "clock":
        jump(Path(file))
        process._PAUSE = 0.2
    else:
        CACHE.limit = int(options.pop(0))
        threading.Thread(target=watch, args=(Path(file),), daemon=True).start()
    sys.argv = ["streamlit", "run", "app.py", *options]
    cli.main()
