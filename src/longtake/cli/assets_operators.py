"""`longtake assets health|stuck|failures|fix-stuck`: how everybody's copies and thumbnails fare, for operators."""

from typing import Annotated

import typer

from longtake.cli.facts import AsJson

Limit = Annotated[int, typer.Option(min=1, max=500, help="How many at most.")]


def health(as_json: AsJson = False) -> None:
    """Show how many files of the last 24 hours were copied and have a thumbnail, with the targets. For operators."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_facts, print_json, print_table

    found = ask("assets.health")
    if as_json:
        print_json(found)
        return
    targets = found.pop("targets")
    print_table(
        ("what", "part", "target", "met"),
        [
            (
                one["name"], "–" if one["rate"] is None else f"{100 * one['rate']:.1f} %",
                f"{'<' if one['at_most'] else '>'} {100 * one['target']:.0f} %",
                {None: "–", True: "yes", False: "missed"}[one["met"]],
            )
            for one in targets
        ],
        nothing="",
    )  # fmt: skip
    print_facts({name.replace("_", " "): f"{count:,}" for name, count in found.items()})


def stuck(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List copies that have not moved for ten minutes, the longest first. For operators."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import age, print_json, print_table

    found = ask("assets.stuck", limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "user", "kind", "state", "tries", "since", "job", "error"),
        [
            (
                one["id"], one["user_id"], one["kind"], one["migration_status"], one["migration_attempts"],
                age(one["stuck_since"]), one["job_state"] or "none", one["migration_error"],
            )
            for one in found["stuck"]
        ],
        nothing="Nothing is stuck.",
    )  # fmt: skip


def failures(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List copies and thumbnails that were given up, the newest first. For operators."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import age, print_json, print_table

    found = ask("assets.failures", limit=limit)
    if as_json:
        print_json(found)
        return
    names = ("id", "user_id", "kind", "what", "status", "attempts")
    print_table(
        ("id", "user", "kind", "what", "state", "tries", "when", "error"),
        [(*(one[name] for name in names), age(one["failed_at"]), one["error"]) for one in found["failures"]],
        nothing="Nothing has failed.",
    )


def fix_stuck(as_json: AsJson = False) -> None:
    """Try at once, at most 50 at a time, what is stuck and has no job; it counts as a failed try. For operators."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_json, print_line

    found = ask("assets.fix_stuck")
    if as_json:
        print_json(found)
        return
    for asset_id in found["fixed"]:
        print_line(f"{asset_id} is tried again.")
    print_line(f"{len(found['fixed']):,} were stuck.")
