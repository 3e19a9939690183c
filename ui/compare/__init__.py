"""The Compare page: other pages' views drawn twice, and differences, matching and numbers."""
