"""What jobs that call providers share: pausing and resuming the lanes of a provider."""
