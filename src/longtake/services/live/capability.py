"""The live stream of events, fed by one reader of the log in each server."""

from longtake.capability import Capability, Context
from longtake.services.live.feed import Feed


def capability(context: Context) -> Capability:
    """Return what the stream registers."""
    feed = Feed(context.database, context.clock)
    return Capability(
        offers=[feed],
        routers="longtake.services.live.routes:routers",
        beside_server=[feed.running],
        # Streams never end by themselves: HTTP would wait for them.
        on_stop=[feed.stop],
    )
