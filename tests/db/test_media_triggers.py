"""V2, V3 and V4 by plain SQL from outside: the row starts copy and thumbnail, exactly one of each."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.db.applications import Application, application, declare_kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BOTH = ["mirror", "thumbnail"]
COMPLETE = "UPDATE assets SET status = 'completed', source_url = 'https://example.com/b.mp4' WHERE id = ?"


@pytest.fixture
async def outside(database_url: str) -> AsyncIterator[Application]:
    await declare_kinds(database_url)
    with application(database_url) as opened:
        yield opened


def test_a_row_that_comes_completed_starts_one_of_each(outside: Application) -> None:
    asset = outside.insert()
    assert outside.jobs(asset) == BOTH
    states = outside.asset(asset, "mirror_state", "thumbnail_state", "completed_at IS NOT NULL")
    assert states == ("pending", "pending", True)
    [(key, subject, due)] = outside.owner_sql(
        "SELECT key, subject, due_at <= CURRENT_TIMESTAMP FROM jobs WHERE kind = 'assets.mirror'"
        if outside.role
        else "SELECT key, subject, julianday(due_at) <= julianday('now') FROM jobs WHERE kind = 'assets.mirror'"
    )
    assert (key, subject, bool(due)) == (asset, asset, True)


def test_nothing_starts_before_it_is_completed(outside: Application) -> None:
    asset = outside.insert(status="processing", url=None)
    outside.sql("UPDATE assets SET status = 'uploading', title = 'A fox' WHERE id = ?", asset)
    outside.sql("UPDATE assets SET source_url = 'https://example.com/early.mp4' WHERE id = ?", asset)
    assert outside.jobs(asset) == []
    assert outside.asset(asset, "mirror_state", "completed_at") == ("none", None)


def test_an_update_starts_one_of_each_and_the_same_update_again_nothing(outside: Application) -> None:
    asset = outside.insert(status="processing", url=None)
    outside.sql(COMPLETE, asset)
    assert outside.jobs(asset) == BOTH
    outside.sql(COMPLETE, asset)
    assert outside.jobs(asset) == BOTH
    # Also when the jobs have ended meanwhile: it was completed once.
    outside.end_jobs()
    outside.sql(COMPLETE, asset)
    assert outside.jobs(asset) == []


def test_two_updates_at_once_start_one_of_each(outside: Application) -> None:
    for _ in range(5):
        asset = outside.insert(status="processing", url=None)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _number, asset=asset: outside.sql(COMPLETE, asset), range(4)))
        assert outside.jobs(asset) == BOTH


def test_a_completion_that_is_taken_back_starts_nothing(outside: Application) -> None:
    asset = outside.insert(status="processing", url=None)
    if outside.role:
        with psycopg.connect(outside.url.replace("longtake_owner@", f"{outside.role}@", 1)) as connection:
            connection.execute(COMPLETE.replace("?", "%s").encode(), (asset,))
            connection.rollback()
    else:
        opened = sqlite3.connect(outside.url.removeprefix("sqlite:///"))
        opened.execute(COMPLETE, (asset,))
        opened.rollback()
        opened.close()
    assert outside.jobs(asset) == []


def test_completed_without_an_address_is_refused(outside: Application) -> None:
    with pytest.raises(Exception, match=r"assets_source|CHECK"):
        outside.insert(url=None)


def test_what_is_under_our_address_is_not_copied(outside: Application) -> None:
    outside.owner_sql("UPDATE asset_facts SET public_prefix = 'https://media.example.com/v1/assets/'")
    ours = outside.insert(url="https://media.example.com/v1/assets/1/content")
    assert outside.jobs(ours) == ["thumbnail"]
    assert outside.asset(ours, "mirror_state") == ("none",)
    # Only from its beginning on, and only that very host.
    for url in ("https://media.example.com.evil.example/v1/assets/1", "https://x.example/?https://media.example.com/"):
        assert outside.jobs(outside.insert(url=url)) == BOTH


def test_a_thumbnail_that_is_there_stays_and_a_drawn_placeholder_is_replaced(outside: Application) -> None:
    assert outside.jobs(outside.insert(thumbnail_url="https://example.com/a.jpg")) == ["mirror"]
    assert outside.jobs(outside.insert(thumbnail_url="data:image/svg+xml;base64,PHN2Zy8+")) == BOTH


def test_force_copies_again_each_time_it_is_set(outside: Application) -> None:
    asset = outside.insert(thumbnail_url="https://example.com/a.jpg")
    outside.end_jobs()
    outside.owner_sql("UPDATE assets SET mirror_state = 'completed', key = 'results/a.mp4' WHERE id = ?", asset)
    outside.end_jobs()
    for _ in range(2):
        outside.sql("UPDATE assets SET force = true WHERE id = ?", asset)
        assert outside.jobs(asset) == ["mirror"]
        assert outside.asset(asset, "mirror_state", "key") == ("pending", "results/a.mp4")
        assert not outside.asset(asset, "force")[0]
        outside.end_jobs()


def test_a_copy_that_completes_is_a_second_chance_for_the_thumbnail(outside: Application) -> None:
    asset = outside.insert()
    outside.end_jobs()
    outside.owner_sql("UPDATE assets SET thumbnail_state = 'failed' WHERE id = ?", asset)
    outside.owner_sql("UPDATE assets SET mirror_state = 'completed', key = 'results/a.mp4' WHERE id = ?", asset)
    assert outside.jobs(asset) == ["thumbnail"]
    assert outside.asset(asset, "thumbnail_state") == ("pending",)


def test_a_row_from_before_the_first_start_waits_for_the_sweep(database_url: str) -> None:
    """Nobody has said yet which jobs there are; the row says what it wants, and the sweep finds it."""
    with application(database_url) as early:
        asset = early.insert()
        assert early.jobs(asset) == []
        assert early.asset(asset, "mirror_state", "thumbnail_state") == ("pending", "pending")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE assets SET key = 'results/of-somebody.mp4'",
        "UPDATE assets SET user_id = 'bob'",
        "UPDATE assets SET mirror_state = 'completed'",
        "DELETE FROM assets",
        "DELETE FROM videos",
        "INSERT INTO jobs (kind) VALUES ('assets.mirror')",
        "SELECT * FROM jobs",
        "SELECT * FROM credit_balances",
        "UPDATE asset_facts SET public_prefix = 'https://evil.example/'",
    ],
)
def test_the_applications_role_may_nothing_else(postgresql_url: str, statement: str) -> None:
    with application(postgresql_url) as outside, pytest.raises(psycopg.errors.InsufficientPrivilege):
        outside.sql(statement)
