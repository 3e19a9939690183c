"""The Tokens page: a text's pieces, the vocabulary, and embeddings."""
