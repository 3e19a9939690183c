"""A trained model as a folder. May import the model, `text` and `files`."""
