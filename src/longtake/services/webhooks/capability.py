"""Webhooks: endpoints of users, and the deliveries to them."""

from longtake.capability import AccountRemover, Capability, Context
from longtake.services.vault.vault import Vault
from longtake.services.webhooks.dispatcher import Dispatcher
from longtake.services.webhooks.endpoints import remove_endpoints_of
from longtake.services.webhooks.jobs import PRUNE_SCHEDULE, WEBHOOK_LANE, WebhookSender, prune_kind


def capability(context: Context) -> Capability:
    """Return what webhooks register."""
    database = context.database
    sender = WebhookSender(database, context.http, context.get(Vault), context.clock)
    return Capability(
        kinds=[sender.kind(), prune_kind(database, context.settings.webhook_days)],
        lanes=[WEBHOOK_LANE],
        schedules=[PRUNE_SCHEDULE],
        routers="longtake.services.webhooks.routes:routers",
        event_types=("webhook.disabled",),
        account_removers=[AccountRemover(remove_endpoints_of, at_once=True)],
        beside_worker=[lambda engine: Dispatcher(database, engine, context.event_types).running()],
    )
