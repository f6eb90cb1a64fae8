"""A task's state follows from its age; its duration from its model, its id and its prompt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from longtake_sandbox.sandbox import Options
from longtake_sandbox.tasks import Journal, Task, Tasks, reference_of

if TYPE_CHECKING:
    from pathlib import Path


def new(prompt: str = "a fox", *, model: str = "one", spread: float = 0.0) -> Task:
    options = Options(seconds={"image": 100.0, "quick": 10.0}, spread=spread)
    return Tasks(options).new("kie", "jobs", model, "image", prompt, now=1000.0)


def test_states_follow_one_another_with_age() -> None:
    task = new()
    states = [task.state(1000.0 + age) for age in (0, 9.9, 10, 29.9, 30, 99.9, 100, 1e6)]
    assert states == ["waiting"] * 2 + ["queuing"] * 2 + ["generating"] * 2 + ["success"] * 2


def test_a_task_does_not_end_before_its_references_are_there() -> None:
    task = new()
    task.fetching = True
    assert task.state(5000.0) == "generating"


@pytest.mark.parametrize(
    ("prompt", "seconds", "ending"),
    [
        ("x [slow]", 1000, "success"),
        ("x [seconds=3.5]", 3.5, "success"),
        ("x [never]", math.inf, "success"),
        ("x [seconds=2] [fail]", 2, "fail"),
        ("failing and slow, but only in words", 100, "success"),
    ],
)
def test_words_in_the_prompt_choose_duration_and_ending(prompt: str, seconds: float, ending: str) -> None:
    task = new(prompt)
    assert (task.seconds, task.ending) == (seconds, ending)


def test_what_never_ends_is_still_running_after_a_year() -> None:
    assert not new("x [never]").ended(1000.0 + 365 * 86400)


def test_a_model_can_have_a_duration_of_its_own() -> None:
    assert (new(model="quick").seconds, new(model="other").seconds) == (10, 100)


def test_durations_are_spread_but_not_beyond_the_spread() -> None:
    durations = {new(spread=0.5).seconds for _ in range(200)}
    assert len(durations) > 150
    assert min(durations) >= 50
    assert max(durations) <= 150
    assert max(durations) - min(durations) > 50


def test_the_reference_is_the_last_part_of_the_callback_address() -> None:
    assert reference_of("http://127.0.0.1:8080/v1/callbacks/kie/tsk_1?token=x") == "tsk_1"
    assert reference_of("") == ""


def test_a_journal_gives_back_what_was_written_even_after_a_cut_last_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    first, second = new(), new("x [never]")
    journal = Journal(str(path))
    journal.write(first)
    journal.write(second)
    first.ending = "fail"
    journal.write(first)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"id": "cut')
    third = new("a hare")
    again = Journal(str(path))
    again.write(third)
    found = [(one.id, one.seconds, one.ending) for one in again.read()]
    again.close()
    assert found == [(first.id, 100, "fail"), (second.id, math.inf, "success"), (third.id, 100, "success")]
