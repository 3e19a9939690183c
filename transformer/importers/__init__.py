"""Converts other libraries' models to checkpoints. May import `checkpoint`, `text` and `files`."""
