"""The base of every page: URL state, view, widgets, text and layout. Computes nothing."""
