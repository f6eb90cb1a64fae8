"""What commands say of themselves: help, completion, and values that are refused before anything is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from longtake.cli.main import app
from longtake.terminal.commands import LazyCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.conftest import Commands


def names(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    command = command.load() if isinstance(command, LazyCommand) else command
    for name, member in getattr(command, "commands", {}).items():
        yield from names(member, (*path, name))


@pytest.mark.parametrize("name", list(names(typer.main.get_command(app))), ids=" ".join)
def test_help_shows_no_type_beside_a_flag(commands: Commands, name: tuple[str, ...]) -> None:
    shown = commands(*name, "--help")
    assert (shown.code, "--help" in shown.output) == (0, True)
    assert "bool" not in shown.output


@pytest.mark.parametrize("command", typer.main.get_command(app).commands.values(), ids=lambda one: one.name)  # type: ignore[attr-defined]
def test_the_list_of_commands_says_of_each_what_its_own_help_says(command: LazyCommand) -> None:
    first_paragraph = command.load().help.split("\n\n")[0]
    assert command.help == " ".join(first_paragraph.split())


def test_a_group_without_a_command_prints_its_help(commands: Commands) -> None:
    shown = commands("tasks")
    assert "Usage: longtake tasks" in shown.output + shown.errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["credits", "grant", "local", "0", "--reason", "x"], "must be at least 1."),
        (["tasks", "list", "--limit", "many"], "must be a whole number."),
        (["tasks", "list", "--limit", "201"], "must be at most 200."),
        (["catalogue", "list", "--poster", "nix"], "'nix' is not one of 'none', 'remote', 'stored'."),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_our_words(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    refused = commands(*arguments)
    assert (refused.code, said in refused.errors) == (2, True), refused.errors
    assert "Input should" not in refused.errors
    assert "Value error" not in refused.errors


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(commands: Commands, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_LONGTAKE_COMPLETE", f"source_{shell}")
    script = commands()
    assert (script.code, f"_LONGTAKE_COMPLETE=complete_{shell}" in script.output) == (0, True)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("longtake web", {"webhooks"}),
        ("longtake runs re", {"regenerate"}),
        ("longtake webhooks de", {"delete", "deliveries", "delivery"}),
        ("longtake tasks list --st", {"--status"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_completed(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, shell: str, typed: str, offered: set[str]
) -> None:
    monkeypatch.setenv("_LONGTAKE_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    said = commands().output
    for word in offered:
        assert word in said
    assert "login" not in said
