"""`longtake webhooks …`: the user's webhooks and their deliveries."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from longtake.cli.server import WEBHOOK, ServerConnection, connect, deliveries_of, shown_id, whole_ids
from longtake.client.shapes import DeliveryWithPayload
from longtake.terminal.commands import AsJson, Commands, Yes, confirm_deletion, delete_each
from longtake.terminal.failures import REFUSED, print_error
from longtake.terminal.output import age, print_facts, print_json, print_line, print_note, print_page

app = Commands()

Id = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id, or the end of it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more webhook ids, or the ends of them.")]
Delivery = Annotated[str, typer.Argument(metavar="DELIVERY", help="The delivery's id, or the end of it.")]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="TYPE", help="An event type such as task.completed, or task.*; may be repeated."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result of the next try.")]
HINTS = {
    "NOT_FOUND": "`longtake webhooks list` lists webhooks, `longtake webhooks deliveries ID` what was sent to one.",
    "REQUEST_INVALID": "--help shows the options, docs/webhooks.md the event types.",
    "STATE_CONFLICT": "`longtake webhooks list` shows states; `longtake webhooks change ID --enable` enables one.",
}
#: Why a webhook is disabled, by the reason that the server gives.
DISABLED = {
    "gone": "disabled: it answered 410 Gone",
    "failing": "disabled: it accepted nothing for three days",
    "owner": "disabled",
}
LOOK_SECONDS = 0.3


@app.command()
def create(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address that events are sent to: https or http.")],
    event: Events = None,
    description: Annotated[str, typer.Option(help="A note for yourself.")] = "",
    as_json: AsJson = False,
) -> None:
    """Send events to an address from now on; without --event all types. The secret is shown only now."""
    with connect(HINTS) as server:
        made = server.client.webhooks.create(url, events=event or [], description=description)
    if as_json:
        print_json(made)
        return
    _print_webhook(made)
    _print_secret(made["secret"])


@app.command("list")
def list_webhooks(as_json: AsJson = False) -> None:
    """List your webhooks, the newest first."""
    with connect(HINTS) as server:
        found = server.client.webhooks.list()
    print_page(
        {"webhooks": found},
        ("id", "state", "last success", "address", "events", "description"),
        (
            (
                shown_id(one["id"]), _state(one), age(one["last_success_at"]) or "never",
                one["url"], _events(one["events"]), one["description"],
            )
            for one in found
        ),
        nothing="You have no webhooks.",
        cut=("state", "address", "events", "description"),
        spare=("description", "events", "last success"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def show(webhook_id: Id, as_json: AsJson = False) -> None:
    """Show one webhook: its address, its events, and whether it is enabled."""
    with connect(HINTS) as server:
        found = server.client.webhooks.get(server.whole_id(WEBHOOK, webhook_id))
    print_json(found) if as_json else _print_webhook(found)


@app.command()
def change(
    webhook_id: Id,
    url: Annotated[str | None, typer.Option(metavar="URL", help="A new address.")] = None,
    event: Events = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="Send all types of events.")] = False,
    description: Annotated[str | None, typer.Option(help="A new note for yourself.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Send events again, or no more.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook, disable it, or enable it again. What is not named stays as it is."""
    if event and all_events:
        raise typer.BadParameter("give either --event or --all-events.", param_hint="--event")
    named = {"url": url, "events": [] if all_events else event, "description": description, "enabled": enabled}
    changes = {name: value for name, value in named.items() if value is not None}
    if not changes:
        raise typer.BadParameter("say what to change; --help lists them.", param_hint="OPTIONS")
    with connect(HINTS) as server:
        found = server.client.webhooks.update(server.whole_id(WEBHOOK, webhook_id), **changes)
    print_json(found) if as_json else _print_webhook(found)


@app.command()
def rotate(webhook_id: Id, as_json: AsJson = False) -> None:
    """Print a new secret, shown only now. For 24 hours, requests are signed with the previous one as well."""
    with connect(HINTS) as server:
        made = server.client.webhooks.rotate(server.whole_id(WEBHOOK, webhook_id))
    print_json(made) if as_json else _print_secret(made["secret"])


@app.command()
def delete(webhook_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete webhooks with their deliveries."""
    with connect(HINTS) as server:
        known = whole_ids(server.client, WEBHOOK, webhook_ids)
        confirm_deletion(known, "webhook", "Deliveries go as well.", yes=yes)
        delete_each(known, server.client.webhooks.delete, as_json=as_json)


@app.command("test")
def send_test(webhook_id: Id, wait: Wait = True, as_json: AsJson = False) -> None:
    """Send a `webhook.test` once, whatever events the webhook receives."""
    with connect(HINTS) as server:
        known = server.whole_id(WEBHOOK, webhook_id)
        _follow(server, known, server.client.webhooks.test(known), wait=wait, as_json=as_json)


@app.command()
def deliveries(
    webhook_id: Id,
    state: Annotated[str | None, typer.Option(help="pending, delivered or failed.")] = None,
    before: Annotated[str | None, typer.Option(metavar="DELIVERY", help="Only deliveries older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what was sent to a webhook, the newest first, with the result of each last try."""
    with connect(HINTS) as server:
        known = server.whole_id(WEBHOOK, webhook_id)
        found = server.client.webhooks.deliveries(known, state=state, before=before, limit=limit)
    print_page(
        found,
        ("id", "event", "state", "tries", "answer", "when", "error"),
        (
            (
                shown_id(one["id"]), one["type"], one["state"], one["attempts"],
                one["status_code"], f"next {age(one['next_at'])}" if one["next_at"] else age(one["ended_at"]),
                one["error"],
            )
            for one in found["deliveries"]
        ),
        nothing="No deliveries match." if state or before else "Nothing was sent to it yet.",
        cut=("error",),
        spare=("answer", "when", "error"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def delivery(webhook_id: Id, delivery_id: Delivery, as_json: AsJson = False) -> None:
    """Show one delivery with its payload and the result of its last try."""
    with connect(HINTS) as server:
        known = server.whole_id(WEBHOOK, webhook_id)
        found = server.client.webhooks.delivery(known, server.whole_id(deliveries_of(known), delivery_id))
    if as_json:
        print_json(found)
        return
    print_facts(
        {
            "id": found["id"],
            "event": found["type"],
            "state": found["state"],
            "tries": found["attempts"],
            "answer": found["status_code"],
            "seconds": found["seconds"],
            "error": found["error"],
            "created": age(found["created_at"]),
            "next try": age(found["next_at"]),
            "ended": age(found["ended_at"]),
            "payload": found["payload"],
        }
    )


@app.command()
def redeliver(webhook_id: Id, delivery_id: Delivery, wait: Wait = True, as_json: AsJson = False) -> None:
    """Try a delivery again now, under the same id. One that has ended gets all its tries again."""
    with connect(HINTS) as server:
        known = server.whole_id(WEBHOOK, webhook_id)
        sent = server.client.webhooks.redeliver(known, server.whole_id(deliveries_of(known), delivery_id))
        _follow(server, known, sent, wait=wait, as_json=as_json)


def _follow(server: ServerConnection, webhook_id: str, sent: DeliveryWithPayload, *, wait: bool, as_json: bool) -> None:
    """Wait for the next try of a delivery and print it; exit with 1 if it failed."""
    # Nothing sends it after the end of a server that was started for this command.
    wait = wait or server.embedded
    found = _await_try(server, webhook_id, sent) if wait else sent
    if as_json:
        print_json(found)
    elif not wait:
        print_line(found["id"])
    elif found["state"] == "delivered":
        print_line(f"Delivered: {found['id']}. It answered {found['status_code']} after {found['seconds']:.2f} s.")
    if wait and found["state"] != "delivered":
        later = f"It is tried again {age(found['next_at'])}." if found["next_at"] else "It is not tried again."
        print_error(found["error"] or "It was not delivered.", "WEBHOOK_FAILED", later)
        raise typer.Exit(REFUSED)


def _await_try(server: ServerConnection, webhook_id: str, sent: DeliveryWithPayload) -> DeliveryWithPayload:
    """Return the delivery once it was tried again, or has ended."""
    found = sent
    try:
        while found["state"] == "pending" and found["attempts"] == sent["attempts"]:
            time.sleep(LOOK_SECONDS)
            found = server.client.webhooks.delivery(webhook_id, sent["id"])
    except KeyboardInterrupt:
        shown = f"`longtake webhooks delivery {webhook_id} {sent['id']}` shows the result"
        print_note(f"Only the waiting has ended: {shown}.")
        raise
    return found


def _state(webhook: Mapping[str, Any]) -> str:
    return "enabled" if webhook["enabled"] else DISABLED.get(webhook["disabled_reason"] or "", "disabled")


def _events(patterns: Sequence[str]) -> str:
    return ", ".join(patterns) or "all"


def _print_webhook(webhook: Mapping[str, Any]) -> None:
    print_facts(
        {
            "id": webhook["id"],
            "address": webhook["url"],
            "events": _events(webhook["events"]),
            "description": webhook["description"],
            "state": _state(webhook),
            "last success": age(webhook["last_success_at"]) or "never",
            "previous secret ends": age(webhook["previous_ends_at"]),
            "created": age(webhook["created_at"]),
            "changed": age(webhook["changed_at"]),
        }
    )


def _print_secret(secret: str) -> None:
    print_line(secret)
    print_note("The secret verifies signatures. It is not shown again: store it now.")
