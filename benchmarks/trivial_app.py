"""The smallest Streamlit page, which counts clicks: the unit of other pages' times."""

import streamlit as st

count = st.session_state.setdefault("count", 0)
if st.button("Again"):
    count = st.session_state["count"] = count + 1
st.text(f"Clicked {count} times")
