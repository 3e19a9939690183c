"""The app in which a visitor is idle at once, so that no test waits for half an hour.

python -m tests.browser.hasty_app [OPTIONS OF STREAMLIT]
"""

from __future__ import annotations

import sys

from streamlit.web import cli

from ui.hosting import start

if __name__ == "__main__":
    start.idle_minutes = lambda: 1e-6  # type: ignore[assignment, return-value]
    sys.argv = ["streamlit", "run", "app.py", *sys.argv[1:]]
    cli.main()
