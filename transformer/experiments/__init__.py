"""The paper's experiments, measured on this machine: what a layer costs (section 4, table 1).

Each is run by a command of its own and stored as a file, which pages and figures read.
"""
