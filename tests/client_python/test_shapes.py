"""What is generated is current, and the shapes are those of a real server's answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest

from longtake.client import shapes
from longtake.client.wire import EventStream
from scripts.generate import CLIENT, PYTHON_SHAPES, ROOT, TWINS, TYPESCRIPT_SHAPES, generated
from scripts.shape import is_generated
from tests.client_python.scripted import Scripted, Step
from tests.client_python.stage import done, every

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.client_python.conftest import Service

FILES = [PYTHON_SHAPES, TYPESCRIPT_SHAPES, *(CLIENT / "_sync" / name for name in TWINS)]


@pytest.fixture(scope="module")
def current() -> dict[Path, str]:
    return generated()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_generated_file_is_current(current: dict[Path, str], file: Path) -> None:
    assert file.read_text("utf-8") == current[file], "Run: ./dev generate"
    assert set(current) == set(FILES)


def test_generated_files_are_not_counted_as_written() -> None:
    assert [is_generated(file) for file in (*FILES, CLIENT / "wire.py")] == [True] * len(FILES) + [False]


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (shapes.Asset, "save_attempts"),
        (shapes.Asset, "created_at"),
        (shapes.Task, "message_id"),
        (shapes.Task, "request_id"),
        (shapes.Snapshot, "server_time"),
    ],
)
def test_a_field_that_was_once_forgotten_is_there(shape: type, field: str) -> None:
    assert field in shape.__required_keys__  # type: ignore[attr-defined] # of every TypedDict


def test_a_task_that_is_tried_until_its_deadline_has_no_last_attempt() -> None:
    assert type(None) in get_args(get_type_hints(shapes.NextTry)["of"])


async def test_a_real_answer_has_the_fields_of_its_shape(service: Service, make_client: Callable[..., Any]) -> None:
    client = make_client(service.server.url, service.token)
    task = await done(client.generate("a fox", type="image", wait=True))
    assert task["status"] == "completed"
    assert isinstance(task["request_id"], str)
    assert isinstance(task["results"][0]["save_attempts"], int)
    assert_has_fields(task, shapes.Task)
    assert_has_fields(task["results"][0], shapes.Asset)
    assert_has_fields(await done(client.snapshot()), shapes.Snapshot)
    assert_has_fields((await done(client.models()))[0], shapes.Model)


def assert_has_fields(answer: Mapping[str, Any], shape: type) -> None:
    assert set(answer) == set(shape.__annotations__)


async def test_words_of_a_newer_server_do_no_harm(script: Scripted, make_client: Callable[..., Any]) -> None:
    task = {"id": "t-1", "status": "dreaming", "type": "hologram", "ended_at": None, "aura": {"colour": "blue"}}
    ended = {**task, "status": "awake", "ended_at": "2026-01-01T12:00:00Z"}
    model = {"name": "m", "type": "hologram", "available": True, "provider": "p", "references": {"least": 0, "most": 0}}
    script.steps["/v1/models"] = [Step(content={"models": [{**model, "smell": 4}]})]
    script.steps["/v1/holograms/generate"] = [Step(202, task)]
    frames = (
        b'event: ready\ndata: {"cursor": "0.1", "aura": 1}\n\nevent: moon.rose\ndata: [1]\n\n'
        b'event: task.woke\nmood: good\ndata: {"cursor": "0.2", "subject": "t-1", "data": {}}\n\n'
    )
    script.steps["/v1/events"] = [Step(content=frames)]
    script.steps["/v1/tasks/t-1"] = [Step(content=task), Step(content=ended)]
    client = make_client(script.url)
    assert await done(client.generate("a fox", model="m")) == task
    assert await every(client.follow("t-1")) == [task, ended]
    assert [event.type for event in EventStream().feed(frames)] == ["ready", "moon.rose", "task.woke"]
