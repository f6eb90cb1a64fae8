"""Assets: links to their files, and their removal with an account. Their routes and jobs are media's."""

from functools import cache, partial

from longtake.capability import AccountRemover, Capability, Context
from longtake.services.assets.files import AssetLinks
from longtake.services.assets.store import remove_assets_of


def capability(context: Context) -> Capability:
    """Return what assets register."""
    # Without a public address, links lead to this server.
    base = context.settings.public_url or context.own_url
    secret = cache(partial(context.secret, "links"))
    links = AssetLinks(context.storage, secret, base, context.clock, context.needs_key)
    return Capability(
        offers=[links],
        event_types=(
            *("asset.added", "asset.progress", "asset.stored", "asset.thumbnail", "asset.preview"),
            *("asset.failed", "asset.expired", "asset.deleted"),
        ),
        account_removers=[AccountRemover(remove_assets_of)],
    )
