"""Downloads: figures, numbers and offline pages."""
