"""Authentication: users' tokens, API keys for machines, their scopes, and rate limits."""
