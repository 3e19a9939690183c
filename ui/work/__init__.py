"""Models and what is computed with them: caches, progress, folders that may be read."""
