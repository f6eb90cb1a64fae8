"""The live stream of a user's events, as server-sent events."""
