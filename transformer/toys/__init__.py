"""Toy tasks that a tiny model learns in a minute, and the process that trains it under control.

Imports `transformer.training` and below; knows no screen.
"""
