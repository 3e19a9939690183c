"""What touches Streamlit beyond drawing: state, cache, controls and canvas components."""
