"""Who is asking, and what they may do: users' tokens, API keys for machines, and how often each may ask."""
