"""Views of media for operators, in SQL's own words.

`migration_health` is one row about the last 24 hours, `stuck_videos` and `migration_failures` have a row for each
file of any kind; their names are those that applications know already.
"""

from alembic import op

from longtake.db.schema import create_views, day_ago, is_postgresql

_UNDER_WAY = "mirror_state IN ('pending', 'downloading', 'uploading')"
_FAILED = "mirror_state IN ('failed', 'expired')"
#: A result that came as bytes was never copied, and says nothing about copies.
_COPIED = "mirror_state = 'completed' AND mirror_attempts > 0"
_SINCE = "coalesce(mirror_tried_at, completed_at, created_at)"


#: Tries at once what is stuck and has no job, at most 50 at a time; returns how many.
_FIX_STUCK = """
CREATE FUNCTION fix_stuck_pending_migrations() RETURNS integer LANGUAGE plpgsql
SET search_path = public, pg_catalog AS $$
DECLARE
    stuck uuid[] := ARRAY(
        SELECT assets.id FROM assets JOIN stuck_videos ON stuck_videos.id = assets.id
        WHERE stuck_videos.job_state IS NULL ORDER BY stuck_videos.stuck_since LIMIT 50
        FOR UPDATE OF assets SKIP LOCKED
    );
BEGIN
    -- Force starts a copy in any state of the row.
    UPDATE assets SET mirror_attempts = mirror_attempts + 1, mirror_tried_at = longtake_now(), force = true,
        mirror_error = format('COPY_STUCK: The copy was stuck in the state %s.', mirror_state)
    WHERE id = ANY (stuck);
    RETURN cardinality(stuck);
END $$"""


def _job(key: str) -> str:
    return f"(SELECT state FROM jobs WHERE jobs.kind = 'assets.mirror' AND jobs.key = {key})"


def upgrade() -> None:
    """Make the views, and on PostgreSQL the function that tries what is stuck."""
    key = "assets.id::text" if is_postgresql() else "assets.id"
    create_views(stuck_videos=_stuck(key))
    create_views(migration_health=_health(key), migration_failures=_failures(key))
    if is_postgresql():
        op.execute(_FIX_STUCK)


def downgrade() -> None:
    """Remove them."""
    if is_postgresql():
        op.execute("DROP FUNCTION fix_stuck_pending_migrations()")
    for view in ("migration_failures", "migration_health", "stuck_videos"):
        op.execute(f"DROP VIEW {view}")


def _health(key: str) -> str:
    within = "(julianday(thumbnail_at) - julianday(completed_at)) * 86400.0 <= 10"
    if is_postgresql():
        within = "thumbnail_at <= completed_at + interval '10 seconds'"
    # What failed and has a job will be tried again.
    given_up = f"{_FAILED} AND {_job(key)} IS NULL"
    return f"""
WITH lately AS (
    SELECT count(*) AS media,
        count(*) FILTER (WHERE {_UNDER_WAY} OR ({_FAILED} AND {_job(key)} IS NOT NULL)) AS copies_under_way,
        count(*) FILTER (WHERE {_COPIED}) AS copied,
        count(*) FILTER (WHERE {_COPIED} AND mirror_attempts = 1) AS copied_first_try,
        count(*) FILTER (WHERE {given_up}) AS copies_failed,
        count(*) FILTER (WHERE thumbnail_state IN ('pending', 'processing')) AS thumbnails_under_way,
        count(*) FILTER (WHERE thumbnail_state = 'completed') AS thumbnails,
        count(*) FILTER (WHERE thumbnail_state = 'completed' AND {within}) AS thumbnails_within_10_seconds,
        count(*) FILTER (WHERE thumbnail_state = 'failed') AS thumbnails_failed
    FROM assets WHERE role <> 'reference' AND completed_at > {day_ago()}
)
SELECT lately.*, (SELECT count(*) FROM stuck_videos) AS stuck,
    1.0 * copied_first_try / nullif(copied + copies_failed, 0) AS first_try_rate,
    1.0 * copied / nullif(copied + copies_failed, 0) AS copied_rate,
    1.0 * copies_failed / nullif(copied + copies_failed, 0) AS copies_failed_rate,
    1.0 * thumbnails / nullif(thumbnails + thumbnails_failed, 0) AS thumbnail_rate,
    1.0 * thumbnails_within_10_seconds / nullif(thumbnails + thumbnails_failed, 0) AS within_10_seconds_rate
FROM lately"""


def _stuck(key: str) -> str:
    minutes = f"((julianday('now') - julianday({_SINCE})) * 1440.0)"
    if is_postgresql():
        minutes = f"(extract(epoch FROM longtake_now() - {_SINCE}) / 60.0)::double precision"
    return f"""
SELECT id, user_id, kind, title, mirror_state AS migration_status, mirror_attempts AS migration_attempts,
    mirror_error AS migration_error, {_SINCE} AS stuck_since, {minutes} AS minutes_stuck,
    {_job(key)} AS job_state
FROM assets WHERE status = 'completed' AND {_UNDER_WAY} AND {minutes} > 10"""


def _failures(key: str) -> str:
    return f"""
SELECT id, user_id, kind, title, 'copy' AS what, mirror_state AS status, mirror_attempts AS attempts,
    mirror_error AS error, mirror_tried_at AS failed_at, source_url AS video_url
FROM assets WHERE {_FAILED} AND {_job(key)} IS NULL
UNION ALL
SELECT id, user_id, kind, title, 'thumbnail', thumbnail_state, thumbnail_attempts, thumbnail_error, thumbnail_tried_at,
    source_url
FROM assets WHERE thumbnail_state = 'failed'"""
