"""Training, evaluation and publication (sections 5 and 6). May import everything but commands."""
