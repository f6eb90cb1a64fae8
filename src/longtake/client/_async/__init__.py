"""The client for programs with an event loop: the source from which `_sync` is generated."""
