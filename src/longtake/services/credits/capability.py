"""Credits: balances, histories and grants."""

from longtake.capability import Capability, Context


def capability(_context: Context) -> Capability:
    """Return what credits register."""
    return Capability(
        routers="longtake.services.credits.routes:routers",
        event_types=("credits.changed",),
        snapshot="longtake.services.credits.routes:part",
    )
