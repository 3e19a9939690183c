"""The frame around every page: navigation, sidebar, steering, availability."""
