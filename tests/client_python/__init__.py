"""The client for Python programs."""
