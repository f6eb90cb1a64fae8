"""Webhooks: users' own servers are told what happened, by signed requests as Standard Webhooks describes them.

The log of events is read once over all machines (`dispatching`). Each event becomes a delivery for each endpoint that
wants it, and each delivery a job of the engine, which tries until the endpoint has it or is given up (`delivering`).
"""
