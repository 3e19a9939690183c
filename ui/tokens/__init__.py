"""The Tokens page: pieces of a text, the vocabulary, and embeddings."""
