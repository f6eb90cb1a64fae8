"""What the peers on Redis leave behind when all their jobs are over, read with a plain client."""

from typing import Any


def taskiq_is_over(client: Any) -> bool:
    """A stream entry stays, but its group has nothing pending and nothing undelivered."""
    groups = client.xinfo_groups("taskiq")
    return bool(groups) and all(group["pending"] == 0 and group["lag"] == 0 for group in groups)


def dramatiq_is_over(client: Any) -> bool:
    """A message is in the hash until it is acknowledged."""
    return bool(client.hlen("dramatiq:default.msgs") == 0)


def arq_is_over(client: Any) -> bool:
    """A job is in the sorted set until its result is written."""
    return bool(client.zcard("arq:queue") == 0)


def celery_is_over(client: Any) -> bool:
    """Delivered messages are unacknowledged until the worker took them for good."""
    return bool(client.llen("celery") == 0 and client.hlen("unacked") == 0)
