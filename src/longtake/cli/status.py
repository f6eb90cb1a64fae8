"""`longtake health|figures|alerts|settings|version`."""

import getpass
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

import typer

from longtake.cli.operator_access import ask, change
from longtake.settings import describe_settings, load_settings
from longtake.terminal.commands import AsJson, Commands
from longtake.terminal.output import (
    age,
    count,
    percent,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_page,
    print_table,
    seconds,
)

alerts = Commands()

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more alert ids.")]


def print_figures(
    hours: Annotated[float, typer.Option(min=0.001, max=24 * 366, help="How far back to look.")] = 24.0,
    as_json: AsJson = False,
) -> None:
    """Show how many tasks succeed, how long they take and how soon their providers are asked, with the targets."""
    found = ask("figures.generation", hours=hours)
    if as_json:
        print_json(found)
        return
    print_table(
        ("type", "completed", "failed", "cancelled", "success", "target", "mean", "target", "p95"),
        (
            (
                one["type"], f"{one['completed']:,}", f"{one['failed']:,}", f"{one['cancelled']:,}",
                _judged(percent(one["success_rate"]), one["success_met"]), f"> {percent(one['success_target'])}",
                _judged(seconds(one["mean_seconds"]), one["mean_met"]), f"< {seconds(one['mean_target'])}",
                seconds(one["p95_seconds"]),
            )
            for one in found["types"]
        ),
        nothing="",
    )  # fmt: skip
    print_line(_under_way(found["unfinished"], found["poll_delay"]))
    if found["counted_is_more"]:
        print_note(f"More have ended in this time: these are the figures of the newest {found['counted']:,}.")


def _under_way(unfinished: Mapping[str, int], delay: Mapping[str, Any]) -> str:
    text = f"Under way: {unfinished['pending']:,} pending, {unfinished['running']:,} running"
    if delay["met"] is None:
        return f"{text}."
    mean = _judged(seconds(delay["mean_seconds"]), delay["met"])
    target, longest = seconds(delay["target"]), seconds(delay["max_seconds"])
    return f"{text}; last asked about {mean} ago on average (target < {target}), {longest} at most."


def _judged(value: str, met: bool | None) -> str:
    return f"{value} (missed)" if met is False else value


def print_health(as_json: AsJson = False) -> None:
    """Show what waits and runs, how many workers are alive, which lanes are paused, and which alerts are live."""
    found = ask("health")
    if as_json:
        print_json(found)
        return
    print_facts(
        {
            "jobs that wait": count(found["jobs"], "ready"),
            "jobs that run": found["jobs"]["running"],
            "workers alive": found["workers"] or "none: jobs wait until `longtake serve` or `longtake worker` runs",
            "paused lanes": ", ".join(found["paused_lanes"]) or "none",
            "live alerts": ", ".join(f"{number} {name}" for name, number in found["alerts"].items()) or "none",
            "database": found["database"],
            "version": found["version"],
        }
    )


def print_settings(as_json: AsJson = False) -> None:
    """Print every setting with its value, where that came from, and what it means; secrets are masked."""
    rows = describe_settings(load_settings())
    if as_json:
        print_json({"settings": [asdict(row) for row in rows]})
        return
    print_table(
        ("setting", "value", "from", "meaning"),
        [(row.name, row.value, row.source, row.meaning) for row in rows],
        nothing="There are no settings.",
    )


def print_version() -> None:
    """Print the version."""
    typer.echo(f"longtake {version('longtake')}")


@alerts.command("list")
def list_alerts(
    state: Annotated[
        str | None, typer.Option(help="open, acknowledged or resolved; without it all that are not resolved.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only alerts older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List alerts, the newest first."""
    found = ask("alerts.list", state=state, before=before, limit=limit)
    print_page(
        found,
        ("id", "severity", "code", "state", "times", "last", "message"),
        (
            (
                one["id"], one["severity"], one["code"], one["state"], one["count"], age(one["last_at"]),
                one["message"],
            )
            for one in found["alerts"]
        ),
        nothing="No alerts match." if state or before else "There are no unresolved alerts.",
        as_json=as_json,
    )  # fmt: skip


@alerts.command()
def acknowledge(
    ids: Ids,
    by: Annotated[str | None, typer.Option(help="Who looks after it; by default your user name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Mark alerts as being looked after; they stay until they are resolved."""
    who = by or getpass.getuser()
    change("alerts.acknowledge", f"{who} looks after {', '.join(ids)}.", as_json=as_json, ids=ids, by=who)


@alerts.command()
def resolve(ids: Ids, as_json: AsJson = False) -> None:
    """Mark alerts as resolved; if the trouble comes back, a new alert opens."""
    change("alerts.resolve", f"Resolved: {', '.join(ids)}.", as_json=as_json, ids=ids)
