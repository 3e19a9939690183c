"""Private parts of Streamlit and uvicorn that the app relies on.

A new version may break any of them. `tests/ui/test_platform.py` tests each and names the one that
broke; other modules use public interfaces only.
"""
