"""Models of other libraries, converted to checkpoints of this project. May import `checkpoint`,
`text` and `files`.
"""
