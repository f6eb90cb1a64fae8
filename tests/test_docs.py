"""Whatever a user can type, set, call or run into stands in the documents; what stands there exists."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from longtake import Database, open_database
from longtake.cli.main import app
from longtake.engine.engine import DEFAULT_LANE
from longtake.errors import LongtakeError
from longtake.http.idempotency import KEPT_SECONDS
from longtake.http.problems import HTTP_PROBLEMS, error_response
from longtake.server.application import Application
from longtake.server.web import create_api
from longtake.services.webhooks.endpoints import delivered
from longtake.settings import Settings
from longtake.settings.load import PREFIX
from longtake.terminal.commands import LazyCommand
from longtake.terminal.failures import EXIT_CODES
from tests.accounts.stage import serving
from tests.operators import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake.engine.lanes import Lane

ROOT = Path(__file__).parent.parent
FAMILIES = {
    f"{name}_ERROR"
    for name in (
        "ACCOUNT", "ASSET", "CATALOGUE", "CREDITS", "DATABASE", "ENGINE", "GENERATION", "LONGTAKE", "NET", "OPERATOR",
        "POSTER", "PROVIDER", "SERVER", "STORAGE", "VAULT",
    )
}  # fmt: skip


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """Every row of every table, by the code in its first cell."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and (match := re.match(r"`([^`]+)`", cells[0])):
            found[match[1]] = cells
    return found


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def commands(command: Any, path: tuple[str, ...] = ("longtake",)) -> Iterator[tuple[str, Any]]:
    command = command.load() if isinstance(command, LazyCommand) else command
    if members := getattr(command, "commands", None):
        for name, member in members.items():
            yield from commands(member, (*path, name))
    else:
        yield " ".join(path), command


for _file in (ROOT / "src/longtake").rglob("errors.py"):
    importlib.import_module(".".join(_file.relative_to((ROOT / "src/longtake").parent).with_suffix("").parts))


def errors(kind: type[LongtakeError] = LongtakeError) -> Iterator[type[LongtakeError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from errors(child)


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    opened = open_database(sqlite_url)
    yield opened
    opened.close()


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    headings = re.findall(r"^## `(longtake [a-z -]*[a-z])", page("cli.md"), flags=re.MULTILINE)
    assert sorted(headings) == sorted(name for name, _command in commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("name", "command"), list(commands(typer.main.get_command(app))))
def test_every_option_and_argument_of_a_command_is_explained(name: str, command: Any) -> None:
    text = page("cli.md").split(f"\n## `{name}", 1)[1].split("\n## ", 1)[0]
    heading, body = text.split("\n", 1)
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    for option in options:
        assert any(f"`{option.opts[0]}" in line and option.help in line for line in body.splitlines()), option.opts
    assert len(rows(body)) == len(options)
    for argument in (one for one in command.params if one.param_type_name == "argument"):
        assert (argument.metavar or argument.name).upper() in heading
    assert " ".join(command.help.split()) in body


def test_options_before_the_command_are_explained() -> None:
    options = [one.opts[0] for one in typer.main.get_command(app).params]
    assert sorted(rows(section(page("cli.md"), "Options before the command"))) == sorted(options)


def test_exit_codes_are_explained() -> None:
    found = dict(re.findall(r"^\| (\d+) \| (.+) \|$", section(page("cli.md"), "Exit codes"), flags=re.MULTILINE))
    assert found == {str(code): meaning for code, meaning in EXIT_CODES.items()}


def test_every_setting_is_explained_with_its_default() -> None:
    table = rows(page("settings.md"))
    assert set(table) == {PREFIX + key.upper() for key in Settings.model_fields}
    values = Settings()
    for key, field in Settings.model_fields.items():
        _name, in_file, default, meaning = table[PREFIX + key.upper()]
        value = getattr(values, key)
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        assert (in_file, meaning) == (f"`{key}`", field.description)
        assert default == (f"`{shown}`" if shown else "empty")


def test_every_error_is_explained_with_its_status_and_exit_code() -> None:
    table = rows(section(page("errors.md"), "Raised by Longtake"))
    kinds = {kind.code: kind for kind in errors() if kind.__module__.startswith("longtake.")}
    assert set(table) == set(kinds) - FAMILIES
    for code, (_code, when, status, exit_status) in table.items():
        kind = kinds[code]
        assert when == (kind.__doc__ or "").splitlines()[0]
        assert (int(status), int(exit_status)) == (error_response(kind("x")).status_code, kind.exit_code)
    for code in FAMILIES:
        assert f"(`{code}`)" in page("errors.md")


def test_every_problem_of_http_is_explained() -> None:
    table = rows(section(page("errors.md"), "Only over HTTP"))
    assert {code: int(cells[1]) for code, cells in table.items()} == HTTP_PROBLEMS


def test_the_documents_say_how_long_idempotency_keys_are_kept() -> None:
    kept = f"{KEPT_SECONDS / 3600:g} hours."
    assert f"Longtake keeps it for {kept}" in page("http.md")
    assert f"is kept for {kept}" in page("generation.md")


def test_every_code_in_the_source_is_explained() -> None:
    """Codes are words in capitals: those the engine gives jobs, of alerts, of the command line."""
    explained = set(re.findall(r"`([A-Z_]+)`", page("errors.md")))
    not_codes = {"CRITICAL", "WARNING", "INFO", "COMMIT", "ROLLBACK", "BEGIN", "AUTOCOMMIT", "DENY"}
    not_codes |= {"XDG_CONFIG_HOME", "TCP_USER_TIMEOUT"}  # words of the system
    not_codes |= {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}  # words of the C library
    not_codes |= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
    for file in (ROOT / "src/longtake").rglob("*.py"):
        if "migrations" in file.parts:
            continue
        # Without docstrings and comments, which show examples.
        text = re.sub(r'"""(?:.|\n)*?"""|#.*', "", file.read_text(encoding="utf-8"))
        found = set(re.findall(r'"([A-Z]+_[A-Z_]+|CRASHED|CANCELLED|UNEXPECTED|UNAUTHORIZED)"', text))
        found -= {code for code in found if code.startswith(PREFIX) or code in not_codes}
        assert found <= explained | FAMILIES, f"{file.name}: {sorted(found - explained)}"


def test_every_route_is_explained(database: Database) -> None:
    application = Application(Settings(), database)
    stage = serving(application.build())
    api = create_api(replace(stage, capabilities=application.routers()))
    routes = {"GET /openapi.json"}
    paths = api.openapi()["paths"]
    routes |= {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(rows(page("http.md").split("\n## ")[0])) == routes


def test_every_action_is_explained_with_its_arguments() -> None:
    table = rows(section(page("http.md"), "Operators' actions"))
    assert set(table) == set(ACTIONS)
    for name, action in ACTIONS.items():
        _name, arguments, meaning = table[name]
        fields = action.arguments.model_fields.items()
        expected = [f"`{field}`{'' if facts.is_required() else '?'}" for field, facts in fields]
        assert (arguments, meaning) == (", ".join(expected) or "–", action.meaning)


def test_every_built_in_kind_schedule_and_lane_is_explained(database: Database) -> None:
    application = Application(Settings(), database)
    text = section(page("job-kinds.md"), "Built in")
    kinds, schedules, lanes = text.split("| schedule |")[0], text.split("| schedule |")[1], text.split("| lane |")[-1]
    assert set(rows(kinds)) == {kind.name for kind in application.kinds}
    assert set(rows(schedules.split("| lane |")[0])) == {one.name for one in application.schedules}
    assert set(rows(lanes)) == {DEFAULT_LANE.name, *(lane.name for lane in application.lanes)}
    for kind in application.kinds:
        assert rows(kinds)[kind.name][1] == f"`{kind.lane}`"


def limits(lane: Lane) -> list[str]:
    """Return a lane's limits in the words of the table."""
    found = [f"{lane.max_running} at once"] if lane.max_running else []
    if lane.rate:
        number, seconds = lane.rate
        found.append(f"{number} {({1.0: 'a second', 60.0: 'a minute'}).get(seconds, f'in {seconds:g} s')}")
        found += [f"{lane.burst} of them at once"] if lane.burst > 1 else []
    return [*found, *([f"{lane.spacing:g} s apart"] if lane.spacing else [])]


def test_every_built_in_lane_is_explained_with_its_limits(database: Database) -> None:
    table = rows(section(page("job-kinds.md"), "Built in").split("| lane |")[-1])
    for lane in Application(Settings(), database).lanes:
        assert [one for one in limits(lane) if one not in table[lane.name][1]] == [], lane.name


def test_the_example_of_an_application_works(database: Database) -> None:
    example = re.findall(r"```python\n(.*?)```", page("job-kinds.md"), flags=re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - the document's own example
    engine = Application(Settings(), database).build(names["register"])
    database.run_blocking(engine.declare)
    assert "shop.receipt" in engine.kinds


@pytest.mark.parametrize("name", [file.name for file in sorted((ROOT / "docs").glob("*.md"))])
def test_links_between_documents_lead_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page(name)):
        file = ROOT / "docs" / (target or name)
        assert file.exists(), target
        anchors = {
            re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        }
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


def test_every_event_a_webhook_can_ask_for_is_described(database: Database) -> None:
    types = Application(Settings(), database).context.event_types
    families = rows(section(page("webhooks.md"), "Events"))
    described = [f"{family}.{name}" for family, cells in families.items() for name in re.findall(r"`(\w+)`", cells[1])]
    assert sorted(described) == sorted(delivered(types))
