"""As little as a Streamlit page can do: a click is counted. What other pages' times are held to."""

from __future__ import annotations

import streamlit as st

count = st.session_state.setdefault("count", 0)
if st.button("Again"):
    count = st.session_state["count"] = count + 1
st.text(f"Clicked {count} times")
