"""`longtake generate`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtake.terminal.options import AsJson

if TYPE_CHECKING:
    from longtake.cli.server import ServerConnection
    from longtake.client import Task

Output = Annotated[
    Path | None,
    typer.Option(metavar="DIR|FILE", help="Where the result goes; without it the working folder. Nothing is replaced."),
]


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
    from longtake.cli.progress import follow, interruptible, print_started
    from longtake.cli.results import check_output, finish
    from longtake.cli.server import connect
    from longtake.terminal.output import print_note

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
    server: "ServerConnection",
    prompt: str,
    kind: str | None,
    model: str | None,
    parameters: Sequence[str],
    references: Sequence[Path],
) -> "Callable[[], Task]":
    """Choose a model and upload the references; return the call that starts the task."""
    from longtake.cli.models import read_parameters
    from longtake.client._sync.client import choose_model

    models = server.client.models()
    task_type, name = choose_model(models, kind, model, len(references))
    values = read_parameters(parameters, models, name)
    uploaded = [server.client.upload_reference(file)["id"] for file in references]
    return lambda: server.with_credits(
        lambda: server.client.generate(prompt, type=task_type, model=name, parameters=values, references=uploaded)
    )
