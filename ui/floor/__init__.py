"""Everything behind the page "Floor plan": figure 1, the residual stream and its networks."""
