"""`longtake assets …`: the user's media files, and for operators the state of all copies and thumbnails."""

from pathlib import Path
from typing import Annotated, Any

import typer

from longtake.cli.operator_access import ask
from longtake.cli.server import ASSET, connect, shown_id, whole_ids
from longtake.terminal.commands import AsJson, Commands, Yes, confirm_deletion, delete_each
from longtake.terminal.output import age, none_of, percent, print_facts, print_json, print_line, print_page, print_table

app = Commands()

Id = Annotated[str, typer.Argument(metavar="ID", help="The asset's id, or the end of it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more asset ids, or the ends of them.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until all have been tried once, and report what failed.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="How many at most.")]
HINTS = {
    "NOT_FOUND": "`longtake assets list` lists your assets.",
    "REQUEST_INVALID": "`longtake assets list` lists your assets; --help shows the options.",
    "STATE_CONFLICT": "`longtake tasks delete ID` deletes a task with its results.",
}


@app.command()
def add(
    urls: Annotated[list[str], typer.Argument(metavar="URL", help="One or more addresses of files.")],
    kind: Annotated[str | None, typer.Option(help="image or video; by default guessed from the address.")] = None,
    title: Annotated[str | None, typer.Option(help="A title for people.")] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Import files by their addresses; each is copied to the storage and gets a thumbnail."""
    from longtake.cli.asset_imports import import_addresses

    import_addresses(urls, kind, title, wait=wait, as_json=as_json)


@app.command("import")
def import_listed(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV with a header: url, title, kind.")],
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Import the files listed in a CSV; bad lines are reported by number and skipped. Twice changes nothing."""
    from longtake.cli.asset_imports import import_file

    import_file(file, wait=wait, as_json=as_json)


@app.command("list")
def list_assets(
    role: Annotated[str | None, typer.Option(help="result, reference, import or scene.")] = None,
    kind: Annotated[str | None, typer.Option(help="image or video.")] = None,
    state: Annotated[str | None, typer.Option(help="none, pending, success, failed or expired.")] = None,
    before: Annotated[str | None, typer.Option(help="The cursor with which the page before ended.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List your assets, the newest first."""
    with connect() as server:
        found = server.client.assets.list(role=role, kind=kind, state=state, before=before, limit=limit)
    rows: list[dict[str, Any]] = [dict(one) for one in found["assets"]]
    print_page(
        found,
        ("id", "role", "kind", "copy", "thumbnail", "bytes", "created", "title"),
        (
            (
                shown_id(one["id"]), one["role"], one["kind"], one["save_state"], one["thumbnail_state"], one["size"],
                age(one["created_at"]), one.get("title"),
            )
            for one in rows
        ),
        nothing=none_of("assets", filtered=bool(role or kind or state or before)),
        cut=("title",),
        spare=("bytes", "role", "created", "kind", "title"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def show(asset_id: Id, as_json: AsJson = False) -> None:
    """Show all details of one asset."""
    with connect(HINTS) as server:
        asset = server.client.assets.get(server.whole_id(ASSET, asset_id))
    print_json(asset) if as_json else _print_asset(dict(asset))


@app.command()
def retry(
    asset_id: Id,
    force: Annotated[bool, typer.Option(help="Copy the file again even if it was copied.")] = False,
    as_json: AsJson = False,
) -> None:
    """Retry an asset's missing copy and thumbnail now."""
    with connect(HINTS) as server:
        asset = server.client.assets.retry(server.whole_id(ASSET, asset_id), force=force)
    print_json(asset) if as_json else _print_asset(dict(asset))


@app.command()
def delete(asset_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete uploaded or imported files. A result is deleted with its task: `longtake tasks delete`."""
    with connect(HINTS) as server:
        known = whole_ids(server.client, ASSET, asset_ids)
        confirm_deletion(known, "asset", "Files go as well.", yes=yes)
        delete_each(known, server.client.assets.delete, as_json=as_json)


@app.command()
def health(as_json: AsJson = False) -> None:
    """Show how many files of the last 24 hours were copied and have a thumbnail, with the targets. For operators."""
    found = ask("assets.health")
    if as_json:
        print_json(found)
        return
    targets = found.pop("targets")
    print_table(
        ("what", "part", "target", "met"),
        [
            (
                one["name"], percent(one["rate"]),
                f"{'<' if one['at_most'] else '>'} {100 * one['target']:.0f} %",
                {None: "–", True: "yes", False: "missed"}[one["met"]],
            )
            for one in targets
        ],
        nothing="",
    )  # fmt: skip
    print_facts({name.replace("_", " "): f"{count:,}" for name, count in found.items()})


@app.command()
def stuck(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List copies that have not moved for ten minutes, the longest first. For operators."""
    found = ask("assets.stuck", limit=limit)
    print_page(
        found,
        ("id", "user", "kind", "state", "tries", "since", "job", "error"),
        (
            (
                one["id"], one["user_id"], one["kind"], one["migration_status"], one["migration_attempts"],
                age(one["stuck_since"]), one["job_state"] or "none", one["migration_error"],
            )
            for one in found["stuck"]
        ),
        nothing="Nothing is stuck.",
        as_json=as_json,
    )  # fmt: skip


@app.command()
def failures(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List copies and thumbnails that were given up, the newest first. For operators."""
    found = ask("assets.failures", limit=limit)
    names = ("id", "user_id", "kind", "what", "status", "attempts")
    print_page(
        found,
        ("id", "user", "kind", "what", "state", "tries", "when", "error"),
        ((*(one[name] for name in names), age(one["failed_at"]), one["error"]) for one in found["failures"]),
        nothing="Nothing has failed.",
        as_json=as_json,
    )


@app.command("fix-stuck")
def fix_stuck(as_json: AsJson = False) -> None:
    """Retry now, at most 50 at a time, stuck copies that have no job; it counts as a failed try. For operators."""
    found = ask("assets.fix_stuck")
    if as_json:
        print_json(found)
        return
    for asset_id in found["fixed"]:
        print_line(f"{asset_id} is tried again.")
    print_line(f"{len(found['fixed']):,} were stuck.")


def _print_asset(asset: dict[str, Any]) -> None:
    ours = {"created_at": age(asset["created_at"]), "saved_at": age(asset["saved_at"]), "placeholder": None}
    print_facts({name.replace("_", " "): value for name, value in {**asset, **ours}.items()})
