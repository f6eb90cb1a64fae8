"""`longtake workers list`."""

from collections.abc import Mapping
from typing import Any

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="List workers.")


@app.callback()
def workers() -> None:
    """List workers."""


@app.command("list")
def list_workers(as_json: AsJson = False) -> None:
    """List the workers with what each runs, and how long its lease lasts."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import age, print_json, print_table

    found = ask("workers.list")
    if as_json:
        print_json(found)
        return
    print_table(
        ("worker", "name", "running", "started", "lease"),
        [(one["id"], one["name"], one["running"], age(one["started_at"]), _lease(one)) for one in found["workers"]],
        nothing="No worker is alive: jobs wait until `longtake serve` or `longtake worker` runs.",
    )


def _lease(worker: Mapping[str, Any]) -> str:
    if worker["alive"]:
        return f"{worker['lease_left_seconds']:.0f} s left"
    return "gone: its jobs go to the next worker"
