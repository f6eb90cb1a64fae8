"""`longtake lanes list|set|pause|resume`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson

app = Commands(help="See and change how many jobs may run at once, and how often one may start.")

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="One or more lanes.")]
NONE = "none"


@app.command("list")
def list_lanes(as_json: AsJson = False) -> None:
    """List lanes with their limits, and what waits and runs in each."""
    from longtake.cli.operator_access import ask
    from longtake.terminal.output import count, print_json, print_table

    found = ask("lanes.list")
    if as_json:
        print_json(found)
        return
    print_table(
        ("lane", "ready", "running", "max running", "rate", "spacing", "state"),
        [
            (
                lane["name"], count(lane, "ready"), lane["running"], lane["max_running"], _rate(lane),
                f"{lane['spacing_seconds']:g} s" if lane["spacing_seconds"] else None, _state(lane),
            )
            for lane in found["lanes"]
        ],
        nothing="There are no lanes yet; a server or worker declares them at its start.",
    )  # fmt: skip


@app.command("set")
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
    from longtake.cli.operator_access import operator
    from longtake.terminal.output import print_json, print_line

    changes: dict[str, Any] = {"name": name}
    if max_running is not None:
        changes["max_running"] = _number(max_running, "--max-running", int)
    if rate is not None:
        changes["rate_count"], changes["rate_seconds"] = _read_rate(rate)
    if burst is not None:
        changes["burst"] = burst
    if spacing is not None:
        changes["spacing_seconds"] = _number(spacing, "--spacing", float)
    with operator() as ask:
        lane = ask("lanes.set", **changes)
    if as_json:
        print_json(lane)
        return
    spaced = f"{lane['spacing_seconds']:g} s" if lane["spacing_seconds"] else NONE
    limits = f"max running {lane['max_running'] or NONE}, rate {_rate(lane) or NONE}, spacing {spaced}"
    print_line(f"The lane {name} has: {limits}.")


@app.command()
def pause(
    names: Names,
    reason: Annotated[str | None, typer.Option(help="Why; shown in the list.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let no job of the lanes start; those that run go on."""
    from longtake.cli.operator_access import change

    change("lanes.pause", f"Paused: {', '.join(names)}.", as_json=as_json, names=names, reason=reason)


@app.command()
def resume(names: Names, as_json: AsJson = False) -> None:
    """Let jobs of the lanes start again, also where a server had asked us to wait."""
    from longtake.cli.operator_access import change

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
