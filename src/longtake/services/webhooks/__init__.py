"""Webhooks: events sent to users' own servers in signed requests, as Standard Webhooks specifies.

`dispatcher` reads the log of events, once over all machines, and writes a delivery for each endpoint that wants the
event. Each delivery is a job of the engine (`jobs`), retried until the endpoint accepts it or the attempts run out.
"""
