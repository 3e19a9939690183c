"""Studies of heads over a corpus: roles with controls, and the sentences behind the numbers."""
