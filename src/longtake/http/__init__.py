"""What every route shares: errors, paging, idempotency, strict JSON, ranges."""
