"""Pure functions from arrays and labels to figures, without Streamlit or PyTorch."""
