"""Traces for many who ask at once: in turns, and in processes of their own."""
