"""The app in which no address counts as a late word of the browser, however soon it comes.

python -m tests.browser.settled_app [OPTIONS OF STREAMLIT]
"""

from __future__ import annotations

import sys

from streamlit.web import cli

from ui.core import url_state

if __name__ == "__main__":
    url_state._SETTLING = -1.0
    sys.argv = ["streamlit", "run", "app.py", *sys.argv[1:]]
    cli.main()
