"""The benchmark `delivery`: how soon users hear of what happens, and what asking costs with many users and tasks."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
from bench.parts import event_latency, open_streams, snapshots, task_queries, webhook_rate
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {
    "latency": event_latency.rows,
    "streams": open_streams.rows,
    "snapshot": snapshots.rows,
    "queries": task_queries.rows,
    "webhooks": webhook_rate.rows,
}


def rows(options: Options) -> list[Row]:
    return measure(options, PARTS)
