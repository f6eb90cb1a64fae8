"""What a command loads before it answers. Imports are nearly all of its time, which `./dev bench start` measures."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.processes import Place, Server

#: Prints the modules that were loaded by the end, on the last line of what the command says.
WATCHED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from longtake.cli import main
main()
"""
#: Needed by servers, or by the few commands that have a use for them.
NEVER = {
    "PIL", "aiohttp", "alembic", "av", "fastapi", "joserfc", "obstore", "psycopg", "starlette", "uvicorn", "uvloop",
}  # fmt: skip
#: Needed only where a command opens the database itself.
WITH_THE_DATABASE = {"asyncio", "longtake.engine", "longtake.actions", "sqlalchemy", "sqlite3", "structlog"}


def loaded_by(place: Place, *arguments: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        cwd=place.folder, env=place.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize("command", [["jobs", "list"], ["jobs", "list", "--json"], ["lanes", "list"], ["health"]])
def test_an_operators_command_that_asks_a_server_loads_no_database_and_no_web_framework(
    shared_server: Server, shared_place: Place, command: list[str]
) -> None:
    assert shared_server.request("GET", "/healthz").status == 200
    loaded = loaded_by(shared_place, *command)
    assert loaded & (NEVER | WITH_THE_DATABASE | {"cryptography"}) == set()


@pytest.mark.parametrize("command", [["models"], ["tasks", "list"], ["assets", "list"], ["runs", "list"]])
def test_a_users_command_that_asks_a_server_loads_no_database_and_no_web_framework(
    shared_server: Server, shared_place: Place, command: list[str]
) -> None:
    assert shared_server.request("GET", "/healthz").status == 200
    assert loaded_by(shared_place, *command) & (NEVER | WITH_THE_DATABASE) == set()


@pytest.mark.parametrize(
    "command",
    [
        ["jobs", "list"], ["health"], ["credits", "balance", "ada"], ["credits", "audit"], ["keys", "list"],
        ["secrets", "list"], ["figures"], ["runs", "figures"], ["migrate", "status"],
    ],
)  # fmt: skip
def test_a_command_that_opens_the_file_loads_neither_alembic_nor_another_driver_nor_a_web_framework(
    place: Place, command: list[str]
) -> None:
    made = place.run("migrate", "up")
    assert made.returncode == 0, made.stderr
    loaded = loaded_by(place, *command)
    assert "sqlite3" in loaded
    assert loaded & (NEVER | {"cryptography", "longtake.server.application"}) == set()


def test_an_action_of_the_engine_is_found_without_the_operators_modules_of_other_packages(place: Place) -> None:
    made = place.run("migrate", "up")
    assert made.returncode == 0, made.stderr
    loaded = loaded_by(place, "jobs", "list")
    assert [one for one in loaded if one.endswith(".operator")] == ["longtake.server.operator"]


def test_tables_that_are_up_to_date_are_found_so_without_alembic(place: Place) -> None:
    first = loaded_by(place, "migrate", "up")
    assert "alembic" in first
    assert "alembic" not in loaded_by(place, "migrate", "up")


def test_a_token_is_made_without_a_database(place: Place) -> None:
    assert loaded_by(place, "token") & (NEVER | WITH_THE_DATABASE) == set()


def test_a_worker_is_put_together_without_a_web_framework_and_without_codecs() -> None:
    # Its decoders are processes of their own, which load the codecs; drivers and S3 come with their settings.
    asked = "import json, sys, longtake.server.process; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert set(json.loads(shown.stdout)) & (NEVER - {"aiohttp", "uvloop"}) == set()
