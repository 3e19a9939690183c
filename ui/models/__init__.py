"""The Models page: the list of checkpoints and the import form."""
