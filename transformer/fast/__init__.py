"""The fast execution of the model: packed weights, few large operations. May import `search`."""
