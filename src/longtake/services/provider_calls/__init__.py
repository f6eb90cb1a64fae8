"""What jobs that call providers share: the call itself, trouble with it, and the lanes of a provider."""
