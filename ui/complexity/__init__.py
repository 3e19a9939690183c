"""Everything behind the page "Cost": layers measured, paths walked, and the cost of maps."""
