"""What every page stands on: the URL, the view, widgets, text and layout. Computes nothing."""
