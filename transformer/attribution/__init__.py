"""What an edge of a map is worth: measures beyond the attention weight."""
