"""Jobs, leases, lanes, schedules, events. Knows nothing about media."""
