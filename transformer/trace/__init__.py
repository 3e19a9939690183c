"""What a model did on one sentence: records, and how they are made. May import `fast` and
`search`.
"""
