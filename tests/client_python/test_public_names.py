"""What programs rely on: names, and a quick import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import longtake.client
from longtake.client import AsyncClient, Client

NAMES = [
    "Asset",
    "AsyncClient",
    "Balance",
    "Client",
    "DownloadFailed",
    "Event",
    "LongtakeApiError",
    "Me",
    "Model",
    "Run",
    "ServerUnreachable",
    "Snapshot",
    "Task",
    "TaskPage",
]
VERBS = [
    "balance", "close", "download", "events", "follow", "follow_run", "generate", "me", "models", "snapshot",
    "upload_reference",
]  # fmt: skip
TASKS = ["cancel", "delete", "get", "list", "pending", "retry"]
RUNS = ["advance", "cancel", "create", "delete", "get", "list", "regenerate"]
CONVERSATIONS = ["delete"]
WEBHOOKS = ["create", "delete", "deliveries", "delivery", "get", "list", "redeliver", "rotate", "test", "update"]


def public(thing: object) -> list[str]:
    return sorted(name for name, _value in inspect.getmembers(thing, callable) if not name.startswith("_"))


def test_the_public_names_are_these() -> None:
    assert longtake.client.__all__ == NAMES
    for name in NAMES:
        assert getattr(longtake.client, name).__doc__, name


def test_both_clients_have_the_same_verbs_with_the_same_words() -> None:
    plain, loop = Client(), AsyncClient()
    for one in (plain, loop):
        assert (public(one), public(one.tasks), public(one.webhooks)) == (VERBS, TASKS, WEBHOOKS)
        assert (public(one.conversations), public(one.runs)) == (CONVERSATIONS, RUNS)
    for verb in VERBS:
        parameters = [inspect.signature(getattr(one, verb)).parameters for one in (plain, loop)]
        assert list(parameters[0].items()) == list(parameters[1].items()), verb


def test_the_import_needs_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; from longtake.client import Client; Client(); "
        "print([m for m in ('aiohttp', 'fastapi', 'sqlalchemy', 'pydantic', 'typer', 'rich') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
