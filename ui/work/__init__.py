"""Models and computations: caches, progress, and the folders that may be read."""
