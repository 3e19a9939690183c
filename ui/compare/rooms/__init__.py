"""Every other page's room, drawn twice."""
