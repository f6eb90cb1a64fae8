"""`longtake runs figures`: how everybody's images of scenes fare, for operators."""

from longtake.cli.facts import AsJson


def figures(as_json: AsJson = False) -> None:
    """Show the queue of scene images by status; of the last 24 hours how long they took, where, how many failed."""
    from longtake.cli.operator_access import ask
    from longtake.cli.output import print_facts, print_json

    found = ask("runs.figures")
    if as_json:
        print_json(found)
        return
    lately = found["last_24_hours"]
    failure, mean = lately["failure_rate"], lately["mean_seconds"]
    print_facts(
        {
            **{f"{status} images": f"{number:,}" for status, number in found["queue"].items()},
            "completed in 24 hours": f"{lately['completed']:,}",
            "failed in 24 hours": f"{lately['failed']:,}",
            "failure rate": "–" if failure is None else f"{100 * failure:.1f} %",
            "mean of an image": "–" if mean is None else f"{mean:,.1f} s",
            "of which provider": _milliseconds(lately["mean_provider_ms"]),
            "of which storage": _milliseconds(lately["mean_storage_ms"]),
            "all of a try": _milliseconds(lately["mean_total_ms"]),
        }
    )


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
