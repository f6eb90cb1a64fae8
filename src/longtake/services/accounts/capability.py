"""Accounts: the caller, API keys, and the deletion of all that a user has."""

from longtake.capability import AccountRemover, Capability, Context
from longtake.services.accounts.deletion import AccountDeletion


def capability(context: Context) -> Capability:
    """Return what accounts register."""

    def removers() -> list[AccountRemover]:
        # What is built on something goes before it.
        return [one for each in reversed(context.capabilities) for one in each.account_removers]

    deletion = AccountDeletion(context.database, removers)
    return Capability(
        kinds=[deletion.kind()],
        offers=[deletion],
        routers="longtake.services.accounts.routes:routers",
        event_types=("key.created", "key.revoked"),
    )
