"""Private parts of Streamlit and uvicorn that the app relies on, and nothing else.

A new version may break any of it. `tests/ui/test_platform.py` has a test for each part and names
the one that broke; no other module reaches behind a public interface.
"""
