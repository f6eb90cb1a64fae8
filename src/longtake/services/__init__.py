"""What capabilities share."""
