"""`longtake health`, `longtake settings` and `longtake version`."""

from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_health(as_json: AsJson = False) -> None:
    """Say how things are: what waits and runs, who works, what is paused, which alerts are live."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import count, print_facts, print_json

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
    from longtake.cli.output import print_json, print_table
    from longtake.settings import describe_settings, load_settings

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
