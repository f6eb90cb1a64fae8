"""Told at once: the live feed of events."""
