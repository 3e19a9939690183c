"""Made training text: a phrasebook with slots, words of a dictionary, names and numbers to copy.

Imports from the standard library and `transformer.training.data` only.
"""
