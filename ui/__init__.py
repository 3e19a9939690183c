"""The Streamlit side: state, caches, controls and canvas components."""
