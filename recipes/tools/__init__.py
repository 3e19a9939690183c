"""Tools that make training text; `python -m transformer train` calls those that a recipe names.

The library and the app never import them.
"""
