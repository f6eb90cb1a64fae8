"""`longtake generate`, `longtake tasks …` and `longtake models`: the user's tasks, and what can make them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from longtake.cli.progress import describe, follow, interruptible, print_started
from longtake.cli.results import check_output, code_in_words, finish
from longtake.cli.server import TASK, ServerConnection, connect, shown_id, whole_ids
from longtake.client import Model, Task
from longtake.client._sync.client import choose_model
from longtake.terminal.commands import AsJson, Commands, Yes, confirm_deletion, delete_each
from longtake.terminal.output import age, none_of, print_facts, print_json, print_line, print_note, print_page

app = Commands()
Output = Annotated[
    Path | None,
    typer.Option(metavar="DIR|FILE", help="Where the result goes; without it the working folder. Nothing is replaced."),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The task's id, or the end of it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="One or more task ids, or the ends of them.")]
PROMPT_SHOWN = 60
DELETE_HINTS = {"STATE_CONFLICT": "`longtake tasks cancel ID` ends one that waits or runs; then it can be deleted."}
YES = {"yes", "true", "on", "1"}
NO = {"no", "false", "off", "0"}


def generate(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to make, in words.")],
    kind: Annotated[str | None, typer.Option("--type", help="image or video; without it what the model makes.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name; without it the first usable one.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter of the model; may be repeated.")
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A reference image; may be repeated."),
    ] = None,
    output: Output = None,
    open_file: Annotated[bool, typer.Option("--open", help="Open the result with this machine's viewer.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make an image or a video, wait for it, and download it.

    It is made by the server in LONGTAKE_SERVER, else where you are logged in, else on this machine: by the server that
    runs on the data folder, or by one that is started for this command. Ctrl-C ends the waiting, not the task.
    """
    if kind not in {None, "image", "video"}:
        raise typer.BadParameter("must be image or video", param_hint="--type")
    check_output(output)
    with connect() as server:
        if server.local is None:
            # A log-in applies in every folder, so say where the task goes.
            print_note(f"At {server.url} as {server.user}.")
        start = _prepare(server, prompt, kind, model, parameter or [], reference or [])
        with interruptible(server, "task") as started:
            task = start()
            started.append(task["id"])
            if no_wait:
                print_started(server, task, as_json=as_json)
                return
            finish(server.client, follow(server.client, started), output, as_json=as_json, open_files=open_file)


def _prepare(
    server: ServerConnection,
    prompt: str,
    kind: str | None,
    model: str | None,
    parameters: Sequence[str],
    references: Sequence[Path],
) -> Callable[[], Task]:
    """Choose a model and upload the references; return the call that starts the task."""
    models = server.client.models()
    task_type, name = choose_model(models, kind, model, len(references))
    values = read_parameters(parameters, models, name)
    uploaded = [server.client.upload_reference(file)["id"] for file in references]
    return lambda: server.with_credits(
        lambda: server.client.generate(prompt, type=task_type, model=name, parameters=values, references=uploaded)
    )


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
    with connect() as server:
        found = server.client.tasks.list(status=status or [], type=kind, model=model, before=before, limit=limit)
    print_page(
        found,
        ("id", "status", "model", "credits", "created", "prompt"),
        (
            (
                shown_id(one["id"]), one["status"], one["model"],
                one["credits"]["price"], age(one["created_at"]), one["prompt"][:PROMPT_SHOWN],
            )
            for one in found["tasks"]
        ),
        nothing=none_of("tasks", filtered=bool(status or kind or model or before)),
        cut=("prompt",),
        spare=("credits", "model"),
        as_json=as_json,
    )  # fmt: skip


@app.command()
def show(task_id: Id, as_json: AsJson = False) -> None:
    """Show all details of one task."""
    with connect() as server:
        task = server.client.tasks.get(server.whole_id(TASK, task_id))
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


@app.command("follow")
def follow_tasks(task_ids: Ids, output: Output = None, as_json: AsJson = False) -> None:
    """Wait for tasks as `longtake generate` does, and download what they made."""
    check_output(output)
    with connect() as server:
        # A wrong id is refused before the waiting starts.
        known = [server.client.tasks.get(task_id)["id"] for task_id in whole_ids(server.client, TASK, task_ids)]
        with interruptible(server, "task", known):
            finish(server.client, follow(server.client, known), output, as_json=as_json)


@app.command()
def cancel(task_ids: Ids, as_json: AsJson = False) -> None:
    """Cancel tasks; their credits are returned. A cancelled task stays so; one that ended otherwise is refused."""
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
    with connect() as server:
        known = server.whole_id(TASK, task_id)
        task = server.with_credits(lambda: server.client.tasks.retry(known))
        print_started(server, task, as_json=as_json)


@app.command()
def delete(task_ids: Ids, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete tasks that have ended, with their messages, their results and their files. Credits stay as they are."""
    with connect(DELETE_HINTS) as server:
        known = whole_ids(server.client, TASK, task_ids)
        confirm_deletion(known, "task", "Messages, results and files go as well.", yes=yes)
        delete_each(known, server.client.tasks.delete, as_json=as_json)


def print_models(
    kind: Annotated[str | None, typer.Option("--type", help="Only models that make this: image or video.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models of the server you use, with prices and parameters."""
    with connect() as server:
        found = [one for one in server.client.models() if kind in {None, one["type"]}]
    print_page(
        {"models": found},
        ("name", "type", "credits", "state", "references", "parameters"),
        (
            (
                one["name"], one["type"], one["credits"], "usable" if one["available"] else "no key",
                _references(one["references"]), _parameters(one["parameters"]),
            )
            for one in found
        ),
        nothing="No models match." if kind else "There are no models.",
        as_json=as_json,
    )  # fmt: skip
    if found and not as_json:
        print_note("The parameters are shown with their defaults; --json shows the allowed values.")


def _references(bounds: Mapping[str, int]) -> str:
    return f"{bounds['least']}–{bounds['most']}" if bounds["most"] else "none"


def _parameters(specifications: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(one['default'])}" for name, one in specifications.items())


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_parameters(pairs: Iterable[str], models: Sequence[Model], name: str) -> dict[str, Any]:
    """Return the parameters by name. Unknown parameters are left for the server to refuse."""
    specifications = next((model["parameters"] for model in models if model["name"] == name), {})
    found = {}
    for pair in pairs:
        parameter, equals, text = pair.partition("=")
        if not parameter or not equals:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE, such as aspect_ratio=16:9", param_hint="--parameter")
        found[parameter] = _value(text, specifications.get(parameter, {}))
    return found


def _value(text: str, specification: Mapping[str, Any]) -> Any:
    """Convert to the parameter's kind. What cannot be converted stays text, for the server to refuse."""
    kind = specification.get("kind")
    if kind == "choice":
        return next((choice for choice in specification["choices"] if str(choice) == text), text)
    if kind == "yes_no":
        return True if text.lower() in YES else False if text.lower() in NO else text
    if kind in {"whole", "number"}:
        try:
            return int(text) if kind == "whole" else float(text)
        except ValueError:
            return text
    return text
