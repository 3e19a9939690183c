"""Marian and OPUS-MT models in the format of Hugging Face."""
