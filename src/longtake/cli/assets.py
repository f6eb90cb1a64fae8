"""`longtake assets …`: media files of one's own, and for operators how all of them fare."""

from pathlib import Path
from typing import Annotated, Any

import typer

from longtake.cli.assets_operators import failures, fix_stuck, health, stuck
from longtake.cli.deletion import Yes
from longtake.cli.facts import AsJson
from longtake.cli.failures import REFUSED

HELP = "Bring in, see, retry and delete media files; see how copies and thumbnails fare."
app = typer.Typer(help=HELP, no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The asset's id.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more asset ids.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until all have been tried once, and tell what has not come.")]
HINTS = {
    "NOT_FOUND": "`longtake assets list` lists yours.",
    "REQUEST_INVALID": "`longtake assets list` shows whole ids; --help what else there is.",
    "STATE_CONFLICT": "`longtake tasks delete ID` deletes a task with its results.",
}


@app.command()
def add(
    urls: Annotated[list[str], typer.Argument(metavar="URL", help="One or more addresses of files.")],
    kind: Annotated[str | None, typer.Option(help="image or video; by default what the address looks like.")] = None,
    title: Annotated[str | None, typer.Option(help="What people shall read.")] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Bring in files by their addresses: each is copied to the storage and gets a thumbnail."""
    from longtake.capabilities.media.imports import KINDS, ImportLine, ImportRequest
    from longtake.cli.imports import Outcome, bring
    from longtake.cli.output import print_line
    from longtake.cli.user_server import reach

    if kind is not None and kind not in KINDS:
        raise typer.BadParameter("is image or video.", param_hint="--kind")
    outcome = Outcome()
    lines = [ImportLine(number, ImportRequest(url, KINDS.get(kind or ""), title)) for number, url in enumerate(urls, 1)]
    with reach() as reached:
        bring(reached.client, lines, outcome)
        outcome.wait(reached, wanted=wait)
    if not as_json:
        for one in (*outcome.added, *outcome.there):
            print_line(one["id"])
    outcome.tell(as_json=as_json, unit="Address")
    if outcome.refused or outcome.missing:
        raise typer.Exit(REFUSED)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV with a header: url, title, kind.")],
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Bring in the files that a CSV lists: bad lines are told by number, good ones go in. Twice is as good as once."""
    from longtake.cli.imports import Outcome, bring, read_file
    from longtake.cli.user_server import reach
    from longtake.errors import ImportFileInvalid

    found = read_file(file)
    outcome = Outcome()
    for line, reason in found.bad:
        outcome.refuse(line, reason, ImportFileInvalid.code)
    with reach() as reached:
        bring(reached.client, found.lines, outcome)
        outcome.wait(reached, wanted=wait)
    outcome.tell(as_json=as_json, unit="Line")
    if outcome.refused or outcome.missing:
        raise typer.Exit(REFUSED)


@app.command("list")
def list_assets(
    role: Annotated[str | None, typer.Option(help="result, reference or import.")] = None,
    kind: Annotated[str | None, typer.Option(help="image or video.")] = None,
    state: Annotated[str | None, typer.Option(help="none, pending, success, failed or expired.")] = None,
    before: Annotated[str | None, typer.Option(help="What the page before ended with.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List your assets, the newest first."""
    from longtake.cli.output import age, print_json, print_note, print_table
    from longtake.cli.user_server import reach

    with reach() as reached:
        found = reached.client.assets.list(role=role, kind=kind, state=state, before=before, limit=limit)
    if as_json:
        print_json(found)
        return
    rows: list[dict[str, Any]] = [dict(one) for one in found["assets"]]
    print_table(
        ("id", "role", "kind", "copy", "thumbnail", "bytes", "created", "title"),
        [
            (
                one["id"], one["role"], one["kind"], one["save_state"], one["thumbnail_state"], one["size"],
                age(one["created_at"]), one.get("title"),
            )
            for one in rows
        ],
        nothing="There are no such assets.",
        cut=("title",),
        spare=("bytes", "role", "created", "kind", "title"),
    )  # fmt: skip
    if found["next"]:
        print_note(f"There are more: add --before {found['next']}")


@app.command()
def show(asset_id: Id, as_json: AsJson = False) -> None:
    """Show one asset with all that is known of it."""
    from longtake.cli.output import print_json
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        asset = reached.client.assets.get(asset_id)
    if as_json:
        print_json(asset)
        return
    _print_asset(dict(asset))


@app.command()
def retry(
    asset_id: Id,
    force: Annotated[bool, typer.Option(help="Copy the file again even if the copy is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try at once what is missing of an asset's copy and thumbnail."""
    from longtake.cli.output import print_json
    from longtake.cli.user_server import reach

    with reach(HINTS) as reached:
        asset = reached.client.assets.retry(asset_id, force=force)
    if as_json:
        print_json(asset)
        return
    _print_asset(dict(asset))


@app.command()
def delete(asset_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete what you uploaded or brought in, with its files. A result goes with its task: `longtake tasks delete`."""
    from longtake.cli.deletion import confirm_deletion, delete_each
    from longtake.cli.user_server import reach

    known = list(dict.fromkeys(asset_ids))
    confirm_deletion(known, "asset", "Files go as well.", yes=yes)
    with reach(HINTS) as reached:
        delete_each(known, reached.client.assets.delete, as_json=as_json)


app.command()(health)
app.command()(stuck)
app.command()(failures)
app.command("fix-stuck")(fix_stuck)


def _print_asset(asset: dict[str, Any]) -> None:
    from longtake.cli.output import age, print_facts

    ours = {"created_at": age(asset["created_at"]), "saved_at": age(asset["saved_at"]), "placeholder": None}
    print_facts({name.replace("_", " "): value for name, value in {**asset, **ours}.items()})
