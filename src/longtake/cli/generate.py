"""`longtake generate`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtake.cli.facts import AsJson

if TYPE_CHECKING:
    from longtake.cli.user_server import Reached
    from longtake.client import Task

Output = Annotated[
    Path | None,
    typer.Option(metavar="DIR|FILE", help="Where the result goes; without it the working folder. Nothing is replaced."),
]


def generate(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What is to be seen, in words.")],
    kind: Annotated[str | None, typer.Option("--type", help="image or video; without it what the model makes.")] = None,
    model: Annotated[
        str | None, typer.Option(help="The model's name; without it the first that can be used for this.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What the model is told besides; may be repeated.")
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
    from longtake.cli.output import print_note
    from longtake.cli.results import check_output, finish
    from longtake.cli.user_server import reach
    from longtake.client import ServerUnreachable

    if kind not in {None, "image", "video"}:
        raise typer.BadParameter("must be image or video", param_hint="--type")
    check_output(output)
    with reach() as reached:
        if reached.server is None:
            # Wherever one is logged in, every folder uses that server.
            print_note(f"At {reached.url} as {reached.user}.")
        begin = _prepared(reached, prompt, kind, model, parameter or [], reference or [])
        begun: list[Task] = []
        try:
            begun.append(begin())
            if no_wait:
                tell_begun(reached, begun[0], as_json=as_json)
                return
            ended = wait_for(reached, begun)
            finish(reached.client, ended, output, as_json=as_json, open_files=open_file)
        except (KeyboardInterrupt, ServerUnreachable) as error:
            if begun or getattr(error, "sent", True):
                tell_interrupted(reached, [task["id"] for task in begun])
            raise


def wait_for(reached: "Reached", tasks: "Sequence[Task]") -> "list[Task]":
    """Show tasks until all have ended."""
    from longtake.cli.task_progress import follow

    return follow(reached.client, [task["id"] for task in tasks])


def tell_interrupted(reached: "Reached", task_ids: Sequence[str]) -> None:
    """Say that nothing is lost, and how to come back to it."""
    from longtake.cli.output import print_note

    if not task_ids:
        print_note("If the task was taken already, `longtake tasks list` shows it.")
        return
    goes_on = "goes on with the next command" if reached.embedded else "goes on without you"
    print_note(f"What you waited for {goes_on}: `longtake tasks follow {' '.join(task_ids)}`.")


def _prepared(
    reached: "Reached",
    prompt: str,
    kind: str | None,
    model: str | None,
    parameters: Sequence[str],
    references: Sequence[Path],
) -> "Callable[[], Task]":
    """Return the call that makes the task, when all that it needs is there."""
    from longtake.cli.parameters import read_parameters
    from longtake.client.model_choice import choose_model

    models = reached.client.models()
    wanted, name = choose_model(models, kind, model, len(references))
    told = read_parameters(parameters, models, name)
    uploaded = [reached.client.upload_reference(file)["id"] for file in references]
    return lambda: reached.paid(
        lambda: reached.client.generate(prompt, type=wanted, model=name, parameters=told, references=uploaded)
    )


def tell_begun(reached: "Reached", task: "Task", *, as_json: bool) -> None:
    """Print the task that nobody waits for, and how somebody can."""
    from longtake.cli.output import print_json, print_line, print_note

    print_json(task) if as_json else print_line(task["id"])
    if reached.embedded:
        print_note(f"Nothing runs here without a command: `longtake tasks follow {task['id']}` takes it on.")
    elif not as_json:
        print_note(f"`longtake tasks follow {task['id']}` waits for it.")
