"""The app with a cache of a few megabytes, which records its largest size.

    python -m tests.pages.small_caches FILE BYTES [OPTIONS OF STREAMLIT]

FILE gets one line of JSON, updated while the app runs: the most bytes that the cache ever
held, and how many results it holds now.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from streamlit.web import cli

from ui.work.results import CACHE


def watch(file: Path) -> None:
    most = 0
    while True:
        most = max(most, CACHE.nbytes)
        partly = file.with_suffix(".part")
        partly.write_text(json.dumps({"most": most, "entries": len(CACHE)}))
        partly.replace(file)
        time.sleep(0.1)


if __name__ == "__main__":
    CACHE.limit = int(sys.argv[2])
    threading.Thread(target=watch, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.argv = ["streamlit", "run", "app.py", *sys.argv[3:]]
    cli.main()
