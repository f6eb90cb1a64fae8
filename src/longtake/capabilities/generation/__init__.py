"""Images and videos made by providers, as tasks that survive restarts of clients, servers and providers."""
