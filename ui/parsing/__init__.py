"""The Parsing page: a sentence's tree, and the cross-attention of its brackets (section 6.3)."""
