"""A capability that the service has never heard of: notes, whose words a job counts."""
