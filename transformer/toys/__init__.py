"""Toy tasks that a tiny model learns in a minute, and the process that trains it under control.

Imports `transformer.training` and what is below it; knows no screen.
"""
