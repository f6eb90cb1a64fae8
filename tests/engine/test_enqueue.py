"""Enqueueing: part of the caller's transaction, and what is wrong is refused by name."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from longtake import Database, Engine, JobKind, JobRequest, Lane, Priority
from longtake.engine.errors import (
    InvalidArguments,
    InvalidDelay,
    InvalidJob,
    InvalidKey,
    InvalidPriority,
    UnknownKind,
    UnknownLane,
)
from tests.engine.stage import KIND, claim, done, hire, live
from tests.thoroughness import tries

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.databases import StoppedClock


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    kinds = [JobKind(KIND, done), JobKind("poster", done, lane="posters", priority=Priority.TOP, max_attempts=9)]
    engine = Engine(stopped_database, kinds, [Lane("posters")])
    stopped_database.run_blocking(engine.declare)
    return engine


def count(tx: Transaction) -> int:
    return int(tx.execute(text("SELECT count(*) FROM jobs")).scalar_one())


def test_what_is_left_out_comes_from_the_kind(engine: Engine, clock: StoppedClock) -> None:
    def write(tx: Transaction) -> str:
        return engine.enqueue(tx, "poster", {"page": 3}, subject="film 7", request_id="r1").id

    database = engine.database
    row = database.run_blocking(live, database.run_blocking(write))
    assert (row.kind, row.lane, row.priority, row.max_attempts) == ("poster", "posters", 0, 9)
    assert (row.args, row.subject, row.request_id, row.key, row.memo) == ({"page": 3}, "film 7", "r1", None, None)
    assert (row.state, row.attempt, row.crashes, row.snoozes, row.lease_token) == ("ready", 0, 0, 0, None)
    assert row.due_at == row.created_at == clock.now()


async def test_a_job_is_enqueued_by_one_call_with_named_arguments(engine: Engine) -> None:
    first = await engine.database.run(engine.enqueue, "poster", {"page": 3}, key="p", delay=5.0)
    again = await engine.database.run(engine.enqueue, "poster", {}, key="p")
    assert (first.created, again.created, again.id) == (True, False, first.id)
    assert engine.database.run_blocking(live, first.id).key == "p"


def test_what_is_said_wins(engine: Engine, clock: StoppedClock) -> None:
    def write(tx: Transaction) -> str:
        request = JobRequest("poster", [1, "two", None], delay=90.5, lane="default", priority=3, max_attempts=2)
        return engine.enqueue_many(tx, [request])[0].id

    database = engine.database
    row = database.run_blocking(live, database.run_blocking(write))
    assert (row.lane, row.priority, row.max_attempts, row.args) == ("default", 3, 2, [1, "two", None])
    assert row.due_at == clock.now() + timedelta(seconds=90.5)


REFUSED: list[tuple[type[InvalidJob], str, dict[str, Any]]] = [
    (UnknownKind, "nobody.knows", {"kind": "nobody.knows"}),
    (UnknownLane, "nowhere", {"lane": "nowhere"}),
    (InvalidArguments, KIND, {"args": {"file": object()}}),
    (InvalidArguments, KIND, {"args": {1: "keys must be text"}}),
    (InvalidArguments, KIND, {"args": {"bytes": b"\xff"}}),
    (InvalidArguments, KIND, {"args": {"large": "x" * 65_536}}),
    (InvalidArguments, KIND, {"args": {"large": 2**70}}),
    (InvalidArguments, KIND, {"args": {"nul": "a\0b"}}),
    (InvalidArguments, KIND, {"args": {"half": "\ud800"}}),
    (InvalidDelay, "-1", {"delay": -1}),
    (InvalidDelay, "nan", {"delay": math.nan}),
    (InvalidDelay, "inf", {"delay": math.inf}),
    (InvalidDelay, "soon", {"delay": "soon"}),
    (InvalidDelay, "ten years", {"delay": 1e12}),
    (InvalidKey, "201", {"key": "x" * 201}),
    (InvalidKey, KIND, {"key": ""}),
    (InvalidKey, KIND, {"key": "a\0b"}),
    (InvalidKey, KIND, {"key": "\ud800"}),
    (InvalidPriority, "4", {"priority": 4}),
    (InvalidPriority, "-1", {"priority": -1}),
]


def test_what_is_wrong_is_refused_by_name_and_nothing_is_written(engine: Engine) -> None:
    good = JobRequest(KIND)

    def write_many(tx: Transaction, options: dict[str, Any]) -> None:
        engine.enqueue_many(tx, [good, JobRequest(**options), good])

    def write_one(tx: Transaction, options: dict[str, Any]) -> None:
        engine.enqueue(tx, **options)

    for expected, named, wrong in REFUSED:
        for write in (write_many, write_one):
            with pytest.raises(expected) as raised:
                engine.database.run_blocking(write, {"kind": KIND, "args": {}} | wrong)
            assert type(raised.value) is expected, wrong
            assert named in raised.value.message
    assert engine.database.run_blocking(count) == 0


def test_many_are_refused_before_any_is_written(engine: Engine) -> None:
    """Also when the caller goes on after the refusal: all or none."""

    def write(tx: Transaction) -> None:
        with pytest.raises(InvalidKey):
            engine.enqueue_many(tx, [JobRequest(KIND), JobRequest(KIND, key="x" * 201)])
        engine.enqueue(tx, KIND)

    engine.database.run_blocking(write)
    assert engine.database.run_blocking(count) == 1


ARGUMENTS: list[Any] = [
    {}, [], None, "text", 0, {"deep": [{"er": None}]}, {"quote": "'\"\\"}, {"large": "x" * 65_000}, {"ü": "☃ 🎬"},
    {"backslash": "\\u0000"},
]  # fmt: skip


def test_arguments_come_back_as_they_were(engine: Engine) -> None:
    run = engine.database.run_blocking
    worker = run(hire)
    for args in ARGUMENTS:
        run(engine.enqueue_many, [JobRequest(KIND, args)])
        [job] = run(claim, engine, worker)
        assert job.args == args


names = st.text(st.characters(codec="ascii", min_codepoint=1), max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    # Larger ones come back from PostgreSQL as whole numbers: jsonb keeps decimals, not their form.
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=tries(20, 60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(args=json_values)
def test_any_json_comes_back_as_it_was(engine: Engine, args: Any) -> None:
    run = engine.database.run_blocking
    run(lambda tx: engine.enqueue_many(tx, [JobRequest(KIND, args)]))
    [job] = run(claim, engine, run(hire))
    assert job.args == args


def test_a_key_of_200_characters_of_any_kind_is_taken(engine: Engine) -> None:
    key = "ключ'\"\\%?" * 20 + "x" * 20

    def write(tx: Transaction) -> str:
        return engine.enqueue(tx, KIND, key=key).id

    assert len(key) == 200
    assert engine.database.run_blocking(live, engine.database.run_blocking(write)).key == key


def test_a_job_is_rolled_back_with_its_callers_transaction(engine: Engine) -> None:
    told: list[str] = []

    def write_then_fail(tx: Transaction) -> None:
        engine.enqueue(tx, KIND)
        engine.enqueue_many(tx, [JobRequest(KIND, key="k")])
        raise LookupError

    unsubscribe = engine.database.signals.subscribe(told.append)
    with pytest.raises(LookupError):
        engine.database.run_blocking(write_then_fail)
    unsubscribe()
    assert engine.database.run_blocking(count) == 0


def test_a_kind_declared_by_another_process_can_be_enqueued_here(engine: Engine) -> None:
    other = Engine(engine.database)

    def write(tx: Transaction) -> str:
        return other.enqueue(tx, "poster").id

    database = engine.database
    for _ in range(2):
        row = database.run_blocking(live, database.run_blocking(write))
        assert (row.lane, row.priority, row.max_attempts) == ("posters", 0, 9)


def test_an_unknown_kind_is_told_with_those_there_are(engine: Engine) -> None:
    with pytest.raises(UnknownKind) as raised:
        engine.database.run_blocking(lambda tx: engine.enqueue(tx, "postr"))
    assert raised.value.hint == "Declared kinds: poster, sample."


def test_none_at_all_is_fine(engine: Engine) -> None:
    assert engine.database.run_blocking(lambda tx: engine.enqueue_many(tx, [])) == []


async def test_64_enqueue_at_once(engine: Engine) -> None:
    def write(tx: Transaction, number: int) -> str:
        return engine.enqueue(tx, KIND, {"number": number}).id

    ids = await asyncio.gather(*(engine.database.run(write, number) for number in range(64)))
    assert len(set(ids)) == 64
    assert engine.database.run_blocking(count) == 64
