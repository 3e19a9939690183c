"""Downloads: figures, numbers, offline pages. May import `work`, `core` and `figures`."""
