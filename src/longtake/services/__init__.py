"""Services shared by the capabilities."""
