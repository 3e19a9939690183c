"""Arrays and labels in, a figure out: pure functions that know neither Streamlit nor PyTorch."""
