"""V11 and V9: the view `videos` as an application reads and writes it, and the views of operators."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from longtake.capabilities.media.health import fix_stuck, media_failures, media_health, stuck_media
from longtake.capabilities.media.store import save_public_prefix
from tests.databases import as_administrator
from tests.db.applications import Application, application, declare_kinds
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database

BOTH = ["mirror", "thumbnail"]
URL = "https://example.com/fox.mp4"
NEW_URL = "https://example.com/owl.mp4"
OURS = "/v1/assets/"
NAMES = [
    "id", "user_id", "title", "status", "video_url", "migration_status", "migration_attempts", "migration_error",
    "migration_last_attempt_at", "r2_url", "r2_key", "r2_uploaded_at", "thumbnail_url", "thumbnail_generation_status",
    "thumbnail_generation_last_attempt_at", "thumbnail_generated_at", "thumbnail_metadata", "force_remigrate",
    "created_at", "completed_at",
]  # fmt: skip


@pytest.fixture
async def outside(database_url: str) -> AsyncIterator[Application]:
    await declare_kinds(database_url)
    with application(database_url) as opened:
        yield opened


def video(outside: Application, video_id: str) -> dict[str, Any]:
    [row] = outside.sql(f"SELECT {', '.join(NAMES)} FROM videos WHERE id = ?", video_id)
    found = dict(zip(NAMES, row, strict=True))
    return found | {"id": str(found["id"])}


def add(outside: Application, **values: Any) -> str:
    given = {"user_id": "ada", "title": "A fox", "status": "completed", "video_url": URL} | values
    outside.sql(f"INSERT INTO videos ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})", *given.values())
    newest = "SELECT id FROM videos ORDER BY created_at DESC LIMIT 1"
    return str(outside.sql(newest)[0][0])


def finish(outside: Application, video_id: str) -> None:
    """Write what the program writes when copy and thumbnail are there."""
    outside.end_jobs()
    outside.owner_sql(
        "UPDATE assets SET mirror_state = 'completed', mirror_attempts = 1, key = 'results/fox.mp4',"
        " thumbnail_state = 'completed', thumbnail_key = 'thumbnails/fox.jpg', thumbnail_metadata = ? WHERE id = ?",
        json.dumps({"method": "frames", "version": 2}),
        video_id,
    )
    outside.end_jobs()


def test_a_video_is_written_and_read_under_the_names_it_has_elsewhere(outside: Application) -> None:
    written = add(outside)
    assert outside.jobs(written) == BOTH
    found = video(outside, written)
    assert (found["title"], found["video_url"], found["migration_status"]) == ("A fox", URL, "pending")
    assert (found["thumbnail_generation_status"], found["r2_url"], found["migration_attempts"]) == ("pending", None, 0)
    assert outside.asset(written, "role", "kind") == ("import", "video")


def test_a_video_begins_pending_and_starts_when_it_is_completed(outside: Application) -> None:
    written = add(outside, status=None, video_url=None)
    assert video(outside, written)["status"] == "pending"
    assert video(outside, written)["migration_status"] is None
    assert outside.jobs(written) == []
    for _ in range(2):
        outside.sql("UPDATE videos SET status = 'completed', video_url = ? WHERE id = ?", URL, written)
        assert outside.jobs(written) == BOTH


def test_once_it_is_here_its_addresses_are_ours(outside: Application) -> None:
    written = add(outside, thumbnail_url="data:image/svg+xml,<svg/>")
    finish(outside, written)
    found = video(outside, written)
    assert found["video_url"] == found["r2_url"] == f"{OURS}{written}/content"
    assert (found["r2_key"], found["thumbnail_url"]) == ("results/fox.mp4", f"{OURS}{written}/thumbnail")
    outside.owner_sql("UPDATE asset_facts SET public_prefix = 'https://media.example.com/v1/assets/'")
    assert video(outside, written)["r2_url"] == f"https://media.example.com/v1/assets/{written}/content"


def test_saving_a_whole_row_as_it_was_read_changes_nothing(outside: Application) -> None:
    """As programs do that know rows as objects: every column is written, most of them as they were."""
    written = add(outside)
    finish(outside, written)
    before = video(outside, written)
    values = {**before, "title": "A red fox", "thumbnail_metadata": _json(outside, before["thumbnail_metadata"])}
    outside.sql(
        f"UPDATE videos SET {', '.join(f'{name} = ?' for name in NAMES)} WHERE id = ?", *values.values(), written
    )
    assert video(outside, written) == {**before, "title": "A red fox"}
    assert outside.asset(written, "source_url") == (URL,)
    assert outside.jobs(written) == []


def _json(outside: Application, value: Any) -> Any:
    return json.dumps(value) if outside.role else value


def test_force_copies_the_same_file_once_more(outside: Application) -> None:
    written = add(outside)
    finish(outside, written)
    outside.sql("UPDATE videos SET force_remigrate = ? WHERE id = ?", True, written)
    assert outside.jobs(written) == ["mirror"]
    assert not video(outside, written)["force_remigrate"]
    assert outside.asset(written, "key", "file_number") == ("results/fox.mp4", 1)


def test_another_address_is_a_new_file_of_which_nothing_is_known(outside: Application) -> None:
    written = add(outside)
    finish(outside, written)
    outside.owner_sql("UPDATE assets SET width = 640, checksum = 'ab', placeholder = 'data:,' WHERE id = ?", written)
    outside.sql("UPDATE videos SET video_url = ?, title = 'An owl' WHERE id = ?", NEW_URL, written)
    assert outside.jobs(written) == BOTH
    columns = ("source_url", "key", "thumbnail_key", "width", "checksum", "placeholder", "mirror_attempts")
    assert outside.asset(written, *columns) == (NEW_URL, None, None, None, None, None, 0)
    assert outside.asset(written, "file_number", "title", "force") == (2, "An owl", False)
    assert outside.asset(written, "mirror_state", "thumbnail_state") == ("pending", "pending")
    for again in (NEW_URL, NEW_URL):
        outside.sql("UPDATE videos SET video_url = ? WHERE id = ?", again, written)
    assert outside.asset(written, "file_number") == (2,)


def test_jobs_of_the_old_file_are_ended_with_their_leases(outside: Application) -> None:
    written = add(outside)
    before = outside.owner_sql("SELECT id FROM jobs WHERE subject = ?", written)
    outside.owner_sql("UPDATE jobs SET state = 'running', lease_token = id WHERE subject = ?", written)
    outside.sql("UPDATE videos SET video_url = ? WHERE id = ?", NEW_URL, written)
    after = outside.owner_sql("SELECT id, state, lease_token FROM jobs WHERE subject = ?", written)
    assert {row[0] for row in after}.isdisjoint(row[0] for row in before)
    assert [row[1:] for row in after] == [("ready", None)] * 2
    ended = outside.owner_sql("SELECT state FROM jobs_ended WHERE subject = ?", written)
    assert ended == [("cancelled",)] * 2


def test_a_new_file_after_none_is_a_new_file(outside: Application) -> None:
    """As applications do that make a video once more: the row first forgets the old address."""
    written = add(outside)
    finish(outside, written)
    outside.sql("UPDATE videos SET status = 'processing', video_url = NULL WHERE id = ?", written)
    assert outside.jobs(written) == []
    outside.sql("UPDATE videos SET status = 'completed', video_url = ? WHERE id = ?", NEW_URL, written)
    assert outside.jobs(written) == BOTH
    assert outside.asset(written, "source_url", "key", "file_number") == (NEW_URL, None, 2)


def test_a_new_address_before_completion_starts_nothing(outside: Application) -> None:
    written = add(outside, status="processing")
    outside.sql("UPDATE videos SET video_url = ? WHERE id = ?", NEW_URL, written)
    assert outside.jobs(written) == []
    outside.sql("UPDATE videos SET status = 'completed' WHERE id = ?", written)
    assert outside.jobs(written) == BOTH


def test_the_address_of_a_result_is_its_providers(outside: Application) -> None:
    written = add(outside)
    outside.owner_sql("UPDATE assets SET role = 'result' WHERE id = ?", written)
    with pytest.raises(Exception, match="the address of a result"):
        outside.sql("UPDATE videos SET video_url = ? WHERE id = ?", NEW_URL, written)
    outside.sql("UPDATE videos SET title = 'An owl' WHERE id = ?", written)
    assert outside.asset(written, "source_url", "title") == (URL, "An owl")


def test_two_that_write_different_columns_at_once_both_have_their_say(postgresql_url: str) -> None:
    """The view shows the second a row from before the first: only what it changes may be written."""
    asyncio.run(declare_kinds(postgresql_url))
    with application(postgresql_url) as outside:
        written = add(outside, status="processing", video_url=None)
        address = outside.url.replace("longtake_owner@", f"{outside.role}@", 1)
        with psycopg.connect(address) as first, ThreadPoolExecutor(1) as thread:
            first.execute("UPDATE videos SET status = 'completed', video_url = %s WHERE id = %s", (URL, written))
            second = thread.submit(outside.sql, "UPDATE videos SET title = 'An owl' WHERE id = ?", written)
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = ?"
            while not Application(as_administrator(outside.url)).owner_sql(waiting, outside.role):
                assert not second.done(), "the second did not wait for the first"
            first.commit()
            second.result(timeout=PATIENCE_SECONDS)
        assert outside.asset(written, "status", "source_url", "title") == ("completed", URL, "An owl")
        assert outside.jobs(written) == BOTH


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-02-30 00:00:00.000000", "2026-03-02 00:00:00.000000"),
        ("2026-06-31", "2026-07-01 00:00:00.000000"),
        ("2026-01-01T24:00", "2026-01-02 00:00:00.000000"),
        ("2026-01-01T12:00:00+02:00", "2026-01-01 10:00:00.000000"),
        ("2026-01-01 12:00:00.123456", "2026-01-01 12:00:00.123456"),
    ],
)
def test_whatever_time_an_application_writes_can_be_read(sqlite_url: str, given: str, kept: str) -> None:
    asyncio.run(declare_kinds(sqlite_url))
    with application(sqlite_url) as outside:
        written = add(outside, completed_at=given, created_at=given)
        assert outside.asset(written, "completed_at", "created_at") == (kept, kept)
        due = outside.owner_sql("SELECT due_at, created_at FROM jobs WHERE subject = ?", written)
        assert due == [(kept, kept)] * 2
        outside.sql("UPDATE videos SET status = 'completed', completed_at = ? WHERE id = ?", given, written)
        assert outside.asset(written, "completed_at") == (kept,)


@pytest.mark.parametrize("given", ["yesterday", "12:00", "2459000.5", "0000-00-00", "", 7])
def test_what_is_no_time_counts_as_none(sqlite_url: str, given: Any) -> None:
    asyncio.run(declare_kinds(sqlite_url))
    with application(sqlite_url) as outside:
        written = add(outside, completed_at=given)
        [(due,), _other] = outside.owner_sql("SELECT due_at FROM jobs WHERE subject = ?", written)
        assert (datetime.now(UTC) - datetime.fromisoformat(f"{due}+00:00")).total_seconds() < 60


def test_a_time_that_is_to_come_keeps_nobody_waiting(sqlite_url: str) -> None:
    asyncio.run(declare_kinds(sqlite_url))
    with application(sqlite_url) as outside:
        written = add(outside, completed_at="2126-01-01 00:00:00")
        for (due,) in outside.owner_sql("SELECT due_at FROM jobs WHERE subject = ?", written):
            assert datetime.fromisoformat(f"{due}+00:00") <= datetime.now(UTC)


@pytest.mark.parametrize(
    "change",
    ["r2_key = 'results/of-bob.mp4'", "migration_status = 'completed'", "user_id = 'bob'", "migration_attempts = 9",
     "thumbnail_generation_status = 'completed'", "r2_url = 'https://evil.example/'"],
)  # fmt: skip
def test_what_is_not_the_applications_to_say_is_refused(outside: Application, change: str) -> None:
    written = add(outside)
    before = video(outside, written)
    with pytest.raises(Exception, match="written by Longtake"):
        outside.sql(f"UPDATE videos SET {change}, title = 'Another' WHERE id = ?", written)
    assert video(outside, written) == before
    for name, value in (("r2_key", "results/of-bob.mp4"), ("migration_attempts", 9)):
        with pytest.raises(Exception, match="written by Longtake"):
            add(outside, **{name: value})


def test_images_and_references_are_no_videos(outside: Application) -> None:
    outside.insert(kind="image")
    outside.owner_sql(
        "INSERT INTO assets (user_id, role, kind, key, mirror_state)"
        " VALUES ('ada', 'reference', 'video', 'k', 'completed')"
    )
    assert outside.sql("SELECT * FROM videos") == []


def test_users_requests_have_no_part_in_it(postgresql_url: str) -> None:
    import psycopg

    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("SET ROLE longtake_api")
        for name in ("videos", "stuck_videos", "migration_health", "migration_failures"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM {name}".encode())


# -- operators -------------------------------------------------------------------------------------------------------

LONG_AGO = "2026-01-01 00:00:00.000000+00"


def stall(outside: Application, state: str = "downloading") -> str:
    """Leave a copy as a program does that was lost with its job."""
    asset = outside.insert()
    outside.end_jobs()
    moment = LONG_AGO if outside.role else LONG_AGO.removesuffix("+00")
    outside.owner_sql("UPDATE assets SET mirror_state = ?, mirror_tried_at = ? WHERE id = ?", state, moment, asset)
    return asset


def test_what_is_stuck_is_seen_and_fixed(outside: Application, database: Database) -> None:
    stuck, moving = stall(outside), outside.insert()
    [row] = database.run_blocking(stuck_media, 50)
    assert (row["id"], row["migration_status"], row["job_state"]) == (stuck, "downloading", None)
    assert row["minutes_stuck"] > 10
    assert row["stuck_since"].startswith("2026-01-01T00:00:00")
    assert database.run_blocking(fix_stuck) == [stuck]
    # Its thumbnail was lost with the copy, and comes with it.
    assert outside.jobs(stuck) == BOTH
    state, attempts, error = outside.asset(stuck, "mirror_state", "mirror_attempts", "mirror_error")
    assert (state, attempts, error) == ("pending", 1, "COPY_STUCK: The copy was stuck in the state downloading.")
    assert outside.jobs(moving) == BOTH
    assert database.run_blocking(stuck_media, 50) == []
    assert database.run_blocking(fix_stuck) == []


def test_what_is_stuck_but_has_a_job_is_seen_and_left_alone(outside: Application, database: Database) -> None:
    stuck = stall(outside, "pending")
    outside.owner_sql("INSERT INTO jobs (kind, key, subject, lane) VALUES ('assets.mirror', ?, ?, 'x')", stuck, stuck)
    [row] = database.run_blocking(stuck_media, 50)
    assert row["job_state"] == "ready"
    assert database.run_blocking(fix_stuck) == []
    assert outside.asset(stuck, "mirror_attempts") == (0,)


async def test_the_function_of_postgresql_does_the_same(postgresql_url: str) -> None:
    await declare_kinds(postgresql_url)
    with application(postgresql_url) as outside:
        stuck = [stall(outside, state) for state in ("pending", "downloading", "uploading")]
        outside.insert()
        assert outside.owner_sql("SELECT fix_stuck_pending_migrations()") == [(3,)]
        assert [outside.jobs(one) for one in stuck] == [BOTH] * 3
        assert outside.asset(stuck[2], "mirror_attempts", "mirror_error") == (
            1, "COPY_STUCK: The copy was stuck in the state uploading.",
        )  # fmt: skip
        assert outside.owner_sql("SELECT fix_stuck_pending_migrations()") == [(0,)]


def test_failures_are_told_with_their_reason_and_without_their_address(
    outside: Application, database: Database
) -> None:
    failed, retried = outside.insert(url="https://example.com/a.mp4?secret=1"), outside.insert()
    outside.owner_sql("DELETE FROM jobs WHERE subject = ?", failed)
    outside.owner_sql("UPDATE assets SET mirror_state = 'failed', mirror_error = 'SOURCE_GONE: It is gone.'")
    outside.owner_sql("UPDATE assets SET thumbnail_state = 'failed', thumbnail_error = 'X: y' WHERE id = ?", failed)
    found = database.run_blocking(media_failures, 50)
    # The other one has a job: it will be tried again.
    assert {(one["id"], one["what"], one["error"]) for one in found} == {
        (failed, "copy", "SOURCE_GONE: It is gone."), (failed, "thumbnail", "X: y"),
    }  # fmt: skip
    assert "secret" not in json.dumps(found)
    assert retried not in json.dumps(found)


def judged(health: dict[str, Any]) -> dict[str, tuple[float | None, bool | None]]:
    return {one["name"]: (one["rate"], one["met"]) for one in health["targets"]}


def test_targets_of_nothing_are_neither_met_nor_missed(database: Database) -> None:
    health = database.run_blocking(media_health)
    assert health["media"] == 0
    assert set(judged(health).values()) == {(None, None)}


def test_targets_are_reckoned_from_the_rows(outside: Application, database: Database) -> None:
    """Twenty: 15 at the first try, 4 later, 1 never; 19 thumbnails, 18 of them in time; an old one beside."""
    for number in range(20):
        asset = outside.insert()
        state, tries = ("completed", 1) if number < 15 else ("completed", 3) if number < 19 else ("failed", 4)
        seconds = 5 if number < 18 else 60
        later = f"completed_at + interval '{seconds} seconds'"
        if not outside.role:
            later = f"strftime('%Y-%m-%d %H:%M:%f000', completed_at, '+{seconds} seconds')"
        picture = "completed" if number < 19 else "failed"
        outside.owner_sql(
            f"UPDATE assets SET mirror_state = ?, mirror_attempts = ?, key = 'k', thumbnail_state = ?,"
            f" thumbnail_at = {later} WHERE id = ?",
            state, tries, picture, asset,
        )  # fmt: skip
        outside.end_jobs()
    old = outside.insert(completed_at="2026-01-01 00:00:00+00" if outside.role else "2026-01-01 00:00:00.000000")
    outside.owner_sql("DELETE FROM jobs WHERE subject = ?", old)
    outside.owner_sql("UPDATE assets SET mirror_state = 'failed' WHERE id = ?", old)
    health = database.run_blocking(media_health)
    assert (health["media"], health["copied"], health["copied_first_try"], health["copies_failed"]) == (20, 19, 15, 1)
    assert judged(health) == {
        "thumbnail within 10 s": (0.9, False),
        "thumbnail made": (0.95, False),
        "copied at the first try": (0.75, True),
        "copied in the end": (0.95, True),
        "never copied": (0.05, True),
    }
    # The view itself says the same.
    [(media, rate)] = outside.owner_sql("SELECT media, first_try_rate FROM migration_health")
    assert (media, float(rate)) == (20, 0.75)


def test_our_own_address_is_written_where_the_rows_can_read_it(database: Database, database_url: str) -> None:
    def prefix() -> str:
        return str(Application(database_url).owner_sql("SELECT public_prefix FROM asset_facts")[0][0])

    for address, expected in (
        ("https://media.example.com", "https://media.example.com/v1/assets/"),
        ("", "https://media.example.com/v1/assets/"),
        ("https://other.example.com/media/", "https://other.example.com/media/v1/assets/"),
    ):
        database.run_blocking(save_public_prefix, address)
        assert prefix() == expected
