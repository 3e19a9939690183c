"""Work of every kind that is killed, or whose disk fills, at random moments; `make soak`."""
