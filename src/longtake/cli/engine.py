"""`longtake lanes|kinds|schedules|workers …`: what the engine runs, and how fast."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.cli.operator_access import ask, change
from longtake.terminal.commands import AsJson, Commands
from longtake.terminal.output import age, count, duration, print_json, print_line, print_page

lanes = Commands()
kinds = Commands()
schedules = Commands()
workers = Commands()

NONE = "none"
LaneNames = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more lanes.")]
KindNames = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more job kinds.")]
ScheduleNames = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more schedules.")]


@lanes.command("list")
def list_lanes(as_json: AsJson = False) -> None:
    """List lanes with their limits, and what waits and runs in each."""
    found = ask("lanes.list")
    print_page(
        found,
        ("lane", "ready", "running", "max running", "rate", "spacing", "state"),
        (
            (
                lane["name"], count(lane, "ready"), lane["running"], lane["max_running"], _rate(lane),
                f"{lane['spacing_seconds']:g} s" if lane["spacing_seconds"] else None, _state(lane),
            )
            for lane in found["lanes"]
        ),
        nothing="There are no lanes yet; a server or worker declares them at its start.",
        as_json=as_json,
    )  # fmt: skip


@lanes.command("set")
def set_lane(
    name: Annotated[str, typer.Argument(help="The lane; created if it does not exist.")],
    max_running: Annotated[
        str | None, typer.Option(metavar="N|none", help="Jobs that may run at once, over all machines.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N/SECONDS|none", help="Starts in a period, such as 10/60 for ten a minute.")
    ] = None,
    burst: Annotated[int | None, typer.Option(min=1, help="Starts of the rate that may come at once.")] = None,
    spacing: Annotated[str | None, typer.Option(metavar="SECONDS|none", help="Least time between two starts.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a lane or change its limits. Limits that are not named stay as they are; `none` removes one."""
    changes: dict[str, Any] = {"name": name}
    if max_running is not None:
        changes["max_running"] = _number(max_running, "--max-running", int)
    if rate is not None:
        changes["rate_count"], changes["rate_seconds"] = _read_rate(rate)
    if burst is not None:
        changes["burst"] = burst
    if spacing is not None:
        changes["spacing_seconds"] = _number(spacing, "--spacing", float)
    lane = ask("lanes.set", **changes)
    if as_json:
        print_json(lane)
        return
    spaced = f"{lane['spacing_seconds']:g} s" if lane["spacing_seconds"] else NONE
    limits = f"max running {lane['max_running'] or NONE}, rate {_rate(lane) or NONE}, spacing {spaced}"
    print_line(f"The lane {name} has: {limits}.")


@lanes.command("pause")
def pause_lanes(
    names: LaneNames,
    reason: Annotated[str | None, typer.Option(help="Why; shown in the list.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let no job of the lanes start; those that run go on."""
    change("lanes.pause", f"Paused: {', '.join(names)}.", as_json=as_json, names=names, reason=reason)


@lanes.command("resume")
def resume_lanes(names: LaneNames, as_json: AsJson = False) -> None:
    """Let jobs of the lanes start again, also where a server had asked us to wait."""
    change("lanes.resume", f"Resumed: {', '.join(names)}.", as_json=as_json, names=names)


def _number(text: str, option: str, kind: type[int] | type[float]) -> float | None:
    if text == NONE:
        return None
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not {'a whole number' if kind is int else 'a number'}.", param_hint=option
        ) from None


def _read_rate(text: str) -> tuple[float | None, float | None]:
    if text == NONE:
        return None, None
    count, slash, seconds = text.partition("/")
    if not slash:
        raise typer.BadParameter(f"{text!r} names no period; example: 10/60 for ten a minute", param_hint="--rate")
    return _number(count, "--rate", int), _number(seconds.strip().removesuffix("s"), "--rate", float)


def _rate(lane: Mapping[str, Any]) -> str | None:
    if lane["rate_count"] is None:
        return None
    burst = f" (burst {lane['burst']})" if lane["burst"] > 1 else ""
    return f"{lane['rate_count']} in {lane['rate_seconds']:g} s{burst}"


def _state(lane: Mapping[str, Any]) -> str:
    if lane["paused"]:
        return f"paused: {lane['paused_reason']}" if lane["paused_reason"] else "paused"
    if lane["blocked_seconds"] > 0:
        return f"held back for {lane['blocked_seconds']:.0f} s"
    return f"slowed {lane['slowdown']:g} times" if lane["slowdown"] > 1 else "open"


@kinds.command("list")
def list_kinds(as_json: AsJson = False) -> None:
    """List job kinds with what waits and runs of each."""
    found = ask("kinds.list")
    print_page(
        found,
        ("kind", "ready", "running", "lane", "priority", "attempts", "state"),
        (
            (
                kind["name"], count(kind, "ready"), kind["running"], kind["lane"], kind["priority"],
                kind["max_attempts"], "paused" if kind["paused"] else "open",
            )
            for kind in found["kinds"]
        ),
        nothing="There are no job kinds yet; a server or worker declares them at its start.",
        as_json=as_json,
    )  # fmt: skip


@kinds.command("pause")
def pause_kinds(names: KindNames, as_json: AsJson = False) -> None:
    """Let no job of the kinds start; those that run go on."""
    change("kinds.pause", f"Paused: {', '.join(names)}.", as_json=as_json, names=names)


@kinds.command("resume")
def resume_kinds(names: KindNames, as_json: AsJson = False) -> None:
    """Let jobs of the kinds start again."""
    change("kinds.resume", f"Resumed: {', '.join(names)}.", as_json=as_json, names=names)


@schedules.command("list")
def list_schedules(as_json: AsJson = False) -> None:
    """List schedules with their last and next time."""
    found = ask("schedules.list")
    print_page(
        found,
        ("schedule", "kind", "rhythm", "last", "next", "state"),
        (
            (
                one["name"], one["kind"], _rhythm(one), age(one["last_at"]) or "never",
                None if one["paused"] else age(one["next_at"]), "paused" if one["paused"] else "open",
            )
            for one in found["schedules"]
        ),
        nothing="There are no schedules yet; a server or worker declares them at its start.",
        as_json=as_json,
    )  # fmt: skip


@schedules.command("run")
def run_schedule(name: Annotated[str, typer.Argument(help="The schedule.")], as_json: AsJson = False) -> None:
    """Enqueue a schedule's job now, in addition to its regular times."""
    result = ask("schedules.run", name=name)
    if as_json:
        print_json(result)
    elif result["created"]:
        print_line(f"{result['job_id']} waits to run.")
    else:
        print_line(f"{result['job_id']} of this schedule waits or runs already; there is never a second one beside it.")


@schedules.command("pause")
def pause_schedules(names: ScheduleNames, as_json: AsJson = False) -> None:
    """Pause schedules; jobs that are already enqueued go on."""
    change("schedules.pause", f"Paused: {', '.join(names)}.", as_json=as_json, names=names)


@schedules.command("resume")
def resume_schedules(names: ScheduleNames, as_json: AsJson = False) -> None:
    """Resume schedules; one whose time has passed meanwhile runs once."""
    change("schedules.resume", f"Resumed: {', '.join(names)}.", as_json=as_json, names=names)


def _rhythm(schedule: Mapping[str, Any]) -> str:
    return str(schedule["cron"] or f"every {duration(schedule['every_seconds'])}")


@workers.command("list")
def list_workers(as_json: AsJson = False) -> None:
    """List the workers with what each runs, and how long its lease lasts."""
    found = ask("workers.list")
    print_page(
        found,
        ("worker", "name", "running", "started", "lease"),
        ((one["id"], one["name"], one["running"], age(one["started_at"]), _lease(one)) for one in found["workers"]),
        nothing="No worker is alive: jobs wait until `longtake serve` or `longtake worker` runs.",
        as_json=as_json,
    )


def _lease(worker: Mapping[str, Any]) -> str:
    if worker["alive"]:
        return f"{worker['lease_left_seconds']:.0f} s left"
    return "gone: its jobs go to the next worker"
