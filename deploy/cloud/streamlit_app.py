"""The app on a small public host that starts its own file, such as Streamlit Community Cloud.

One process takes all work, and visitors are strangers. The requirements beside this file count.
"""

import os
import sys
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
st.secrets.load_if_toml_exists()  # secrets become environment variables and go before these
os.environ.setdefault("HEADLIGHT_PUBLIC", "1")
os.environ.setdefault("HEADLIGHT_WORKERS", "0")

from ui.frame.serving import begin  # noqa: E402
from ui.hosting.gate import Gate  # noqa: E402
from ui.hosting.start import problems  # noqa: E402

if unfit := problems():
    sys.exit("Headlight does not start.\n" + "\n".join(f"  {why}" for why in unfit))
app = st.App(ROOT / "app.py", middleware=[Middleware(Gate)], lifespan=begin)
