"""`longtake tasks list|show|follow|cancel|retry|delete`: the user's tasks."""

from typing import Annotated, Any

import typer

from longtake.cli.generate import Output
from longtake.terminal.commands import Commands
from longtake.terminal.options import AsJson, Yes

app = Commands(help="See, follow, cancel, retry and delete your tasks.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The task's id, or the end of it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more task ids, or the ends of them.")]
PROMPT_SHOWN = 60
DELETE_HINTS = {"STATE_CONFLICT": "`longtake tasks cancel ID` ends one that waits or runs; then it can be deleted."}


@app.command("list")
def list_tasks(
    status: Annotated[
        list[str] | None,
        typer.Option(help="pending, running, completed, failed or cancelled; may be repeated."),
    ] = None,
    kind: Annotated[str | None, typer.Option("--type", help="image or video.")] = None,
    model: Annotated[str | None, typer.Option(help="Only tasks of this model.")] = None,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only tasks older than this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List tasks, the newest first."""
    from longtake.cli.server import connect, short
    from longtake.terminal.output import age, none_of, on_terminal, print_json, print_more, print_table

    with connect() as server:
        found = server.client.tasks.list(status=status or [], type=kind, model=model, before=before, limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "status", "model", "credits", "created", "prompt"),
        [
            (
                short(one["id"]) if on_terminal() else one["id"], one["status"], one["model"],
                one["credits"]["price"], age(one["created_at"]), one["prompt"][:PROMPT_SHOWN],
            )
            for one in found["tasks"]
        ],
        nothing=none_of("tasks", filtered=bool(status or kind or model or before)),
        cut=("prompt",),
        spare=("credits", "model"),
    )  # fmt: skip
    print_more(found)


@app.command()
def show(task_id: Id, as_json: AsJson = False) -> None:
    """Show all details of one task."""
    from datetime import UTC, datetime

    from longtake.cli.progress import describe
    from longtake.cli.results import code_in_words
    from longtake.cli.server import TASK, connect, whole_id
    from longtake.terminal.output import age, print_facts, print_json

    with connect() as server:
        task = server.client.tasks.get(whole_id(server.client, TASK, task_id))
    if as_json:
        print_json(task)
        return
    print_facts(
        {
            "id": task["id"],
            "status": task["status"],
            "now": None if task["ended_at"] else describe(task, datetime.now(UTC)),
            "error": task["error"] and f"{task['error']['message']} [{code_in_words(task['error']['code'])}]",
            "model": task["model"],
            "prompt": task["prompt"],
            "parameters": task["parameters"],
            "credits": f"{task['credits']['price']:,} ({task['credits']['state']})",
            "created": age(task["created_at"]),
            "ended": age(task["ended_at"]),
            "results": [f"{one['kind']} {one['id']} ({one['save_state']})" for one in task["results"]],
            "retry of": task["retry_of"],
        }
    )


@app.command()
def follow(task_ids: Ids, output: Output = None, as_json: AsJson = False) -> None:
    """Wait for tasks as `longtake generate` does, and download what they made."""
    from longtake.cli.progress import follow, interruptible
    from longtake.cli.results import check_output, finish
    from longtake.cli.server import TASK, connect, whole_ids

    check_output(output)
    with connect() as server:
        # A wrong id is refused before the waiting starts.
        known = [server.client.tasks.get(task_id)["id"] for task_id in whole_ids(server.client, TASK, task_ids)]
        with interruptible(server, "task", known):
            finish(server.client, follow(server.client, known), output, as_json=as_json)


@app.command()
def cancel(task_ids: Ids, as_json: AsJson = False) -> None:
    """Cancel tasks; their credits are returned. A cancelled task stays so; one that ended otherwise is refused."""
    from longtake.cli.server import TASK, connect, whole_ids
    from longtake.terminal.output import print_json, print_line

    cancelled: list[Any] = []
    with connect() as server:
        for task_id in whole_ids(server.client, TASK, task_ids):
            cancelled.append(server.client.tasks.cancel(task_id))
            if not as_json:
                print_line(f"Cancelled: {task_id}.")
    if as_json:
        print_json({"tasks": cancelled})


@app.command()
def retry(task_id: Id, as_json: AsJson = False) -> None:
    """Start a new task like one that failed or was cancelled, and print its id."""
    from longtake.cli.progress import print_started
    from longtake.cli.server import TASK, connect, whole_id

    with connect() as server:
        known = whole_id(server.client, TASK, task_id)
        task = server.with_credits(lambda: server.client.tasks.retry(known))
        print_started(server, task, as_json=as_json)


@app.command()
def delete(task_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete tasks that have ended, with their messages, their results and their files. Credits stay as they are."""
    from longtake.cli.server import TASK, connect, whole_ids
    from longtake.terminal.options import confirm_deletion, delete_each

    with connect(DELETE_HINTS) as server:
        known = whole_ids(server.client, TASK, task_ids)
        confirm_deletion(known, "task", "Messages, results and files go as well.", yes=yes)
        delete_each(known, server.client.tasks.delete, as_json=as_json)
