"""Calls to providers inside jobs, and the lanes they go through."""
