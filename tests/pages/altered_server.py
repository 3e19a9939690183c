"""The app with a cache of so many bytes.

    python -m tests.pages.altered_server FILE BYTES [OPTIONS OF STREAMLIT]

FILE gets one line of JSON, updated while the app runs: the most bytes that the cache ever held.
"""

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
        partly.write_text(json.dumps({"most": most}))
        partly.replace(file)
        time.sleep(0.1)


if __name__ == "__main__":
    _, held, nbytes, *options = sys.argv
    CACHE.limit = int(nbytes)
    threading.Thread(target=watch, args=(Path(held),), daemon=True).start()
    sys.argv = ["streamlit", "run", "app.py", *options]
    cli.main()
