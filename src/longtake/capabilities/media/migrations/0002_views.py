"""Views of media: what operators look at, in SQL's own words, and `videos`, for applications.

`migration_health` is one row about the last 24 hours, `stuck_videos` and `migration_failures` have a row for each
file of any kind; their names are those that applications know already.

Through `videos` an application writes what it knows: owner, title, status, address, a thumbnail of its own. What
Longtake finds out it reads, and may not write. An address that changes is a new file: the row starts over, and what was
under way for the old file ends with the lease of its job. The same address again, also after our copy has taken its
place, changes nothing. The address of a result is its provider's.
"""

from alembic import op

from longtake.db.schema import (
    SEARCH_PATH,
    SQLITE_NEW_ID,
    SQLITE_NOW,
    create_views,
    day_ago,
    is_postgresql,
    sqlite_moment,
)

# -- for operators -----------------------------------------------------------------------------------------------------

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


# -- videos ------------------------------------------------------------------------------------------------------------

#: The view's names of what Longtake alone writes.
_OURS = (
    "migration_status", "migration_attempts", "migration_error", "migration_last_attempt_at", "r2_url", "r2_key",
    "r2_uploaded_at", "thumbnail_generation_status", "thumbnail_generation_last_attempt_at",
    "thumbnail_generated_at", "thumbnail_metadata",
)  # fmt: skip
_FIXED = ("id", "user_id", "created_at")
_REFUSED = (
    "id, owner, the address of a result and the columns of migration, r2 and thumbnail generation"
    " are written by Longtake"
)
_NOTHING_OF_OURS = " AND ".join(
    "coalesce(NEW.migration_attempts, 0) = 0" if name == "migration_attempts" else f"NEW.{name} IS NULL"
    for name in _OURS
)

#: What is known of a file, and goes with it. An error stays until a copy is there: it may stand for an open alert.
_OF_THE_FILE = (
    "source_expires_at", "mirror_tried_at", "mirrored_at", "key", "content_type", "size", "checksum", "width", "height",
    "duration_seconds", "bytes_done", "thumbnail_error", "thumbnail_tried_at", "thumbnail_at",
    "thumbnail_key", "thumbnail_metadata", "placeholder", "preview_error", "preview_key",
)  # fmt: skip
_RESTART = (
    "source_url = NEW.video_url, file_number = file_number + 1, force = true, "
    + ", ".join(f"{name} = NULL" for name in _OF_THE_FILE)
    + ", mirror_state = 'none', thumbnail_state = 'none', preview_state = 'none'"
    + ", mirror_attempts = 0, thumbnail_attempts = 0"
)
_KINDS = "kind IN ('assets.mirror', 'assets.thumbnail', 'assets.preview')"
_KEPT = (
    "id, kind, key, lane, priority, attempt, max_attempts, crashes, snoozes, worker, args, memo, subject, request_id,"
    " created_at, started_at"
)
_WHY = '{"code": "CANCELLED", "message": "its asset has another file now"}'


def _address(identifier: str, of: str) -> str:
    return f"(SELECT coalesce(nullif(public_prefix, ''), '/v1/assets/') FROM asset_facts) || {identifier} || '/{of}'"


def _view(identifier: str) -> str:
    content, thumbnail = (_address(identifier, of) for of in ("content", "thumbnail"))
    return f"""
SELECT id, user_id, title, status,
    CASE WHEN key IS NULL THEN source_url ELSE {content} END AS video_url,
    nullif(mirror_state, 'none') AS migration_status, mirror_attempts AS migration_attempts,
    mirror_error AS migration_error, mirror_tried_at AS migration_last_attempt_at,
    CASE WHEN key IS NOT NULL THEN {content} END AS r2_url, key AS r2_key, mirrored_at AS r2_uploaded_at,
    CASE WHEN thumbnail_state = 'completed' THEN {thumbnail} ELSE thumbnail_url END AS thumbnail_url,
    nullif(thumbnail_state, 'none') AS thumbnail_generation_status,
    thumbnail_tried_at AS thumbnail_generation_last_attempt_at, thumbnail_at AS thumbnail_generated_at,
    thumbnail_metadata, force AS force_remigrate, created_at, completed_at
FROM assets WHERE kind = 'video' AND role <> 'reference'"""


def _written(differs: str, completed_at: str, otherwise: str) -> str:
    """Return the columns that the application has changed, and no other: others may write those at the same time."""
    given = {"title": "NEW.title", "status": "NEW.status", "thumbnail_url": "NEW.thumbnail_url"}
    kept = {name: name for name in given} | {"completed_at": otherwise}
    return ", ".join(
        f"{name} = CASE WHEN NEW.{name} {differs} OLD.{name} THEN {value} ELSE {kept[name]} END"
        for name, value in (given | {"completed_at": completed_at}).items()
    )


def _change(differs: str, completed_at: str, condition: str = "") -> str:
    return f"""
    UPDATE assets SET {_written(differs, completed_at, "completed_at")},
        source_url = CASE WHEN NEW.video_url {differs} OLD.video_url THEN NEW.video_url ELSE source_url END,
        force = coalesce(NEW.force_remigrate, false)
    WHERE id = OLD.id{condition};"""


def _start_over(differs: str, completed_at: str, condition: str = "") -> str:
    """Return what forgets the old file. The jobs about it are ended before; their leases are gone with them."""
    return f"""
    DELETE FROM asset_pictures WHERE asset_id = OLD.id{condition};
    UPDATE assets SET {_written(differs, completed_at, "NULL")}, {_RESTART} WHERE id = OLD.id{condition};"""


_SQLITE_CHANGED = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in (*_FIXED, *_OURS))
_SQLITE_RESULT = "(NEW.video_url IS NOT OLD.video_url AND (SELECT role FROM assets WHERE id = OLD.id) = 'result')"
#: NULL on either side makes no new file: nothing was there, or nothing is any more.
_SQLITE_NEW_FILE = (
    "(coalesce(NEW.video_url <> OLD.video_url, 0)"
    " AND NEW.video_url IS NOT (SELECT source_url FROM assets WHERE id = OLD.id))"
)
_SQLITE_OLD_JOBS = f"{_KINDS} AND key = OLD.id AND {_SQLITE_NEW_FILE}"

SQLITE = (
    f"""
CREATE TRIGGER videos_insert INSTEAD OF INSERT ON videos BEGIN
    SELECT RAISE(ABORT, '{_REFUSED}') WHERE NOT ({_NOTHING_OF_OURS});
    INSERT INTO assets (id, user_id, role, kind, title, status, source_url, thumbnail_url, created_at, completed_at)
    VALUES (coalesce(lower(NEW.id), {SQLITE_NEW_ID}), NEW.user_id, 'import', 'video', NEW.title,
            coalesce(NEW.status, 'pending'), NEW.video_url, NEW.thumbnail_url,
            coalesce({sqlite_moment("NEW.created_at")}, {SQLITE_NOW}), {sqlite_moment("NEW.completed_at")});
END""",
    f"""
CREATE TRIGGER videos_update INSTEAD OF UPDATE ON videos BEGIN
    SELECT RAISE(ABORT, '{_REFUSED}') WHERE {_SQLITE_CHANGED} OR {_SQLITE_RESULT};
    INSERT INTO jobs_ended ({_KEPT}, state, error)
    SELECT {_KEPT}, 'cancelled', '{_WHY}' FROM jobs WHERE {_SQLITE_OLD_JOBS};
    DELETE FROM jobs WHERE {_SQLITE_OLD_JOBS};
    {_start_over("IS NOT", sqlite_moment("NEW.completed_at"), f" AND {_SQLITE_NEW_FILE}")}
    {_change("IS NOT", sqlite_moment("NEW.completed_at"))}
END""",
)

_POSTGRESQL_CHANGED = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in (*_FIXED, *_OURS))

#: With the rights of their owner: who may write the view need not be allowed to write assets.
POSTGRESQL = (
    f"""
CREATE FUNCTION longtake_videos_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {SEARCH_PATH} AS $$
BEGIN
    IF NOT ({_NOTHING_OF_OURS}) THEN
        RAISE EXCEPTION '{_REFUSED}' USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.id := coalesce(NEW.id, longtake_new_id());
    NEW.status := coalesce(NEW.status, 'pending');
    NEW.created_at := coalesce(NEW.created_at, longtake_now());
    INSERT INTO assets (id, user_id, role, kind, title, status, source_url, thumbnail_url, created_at, completed_at)
    VALUES (NEW.id, NEW.user_id, 'import', 'video', NEW.title, NEW.status, NEW.video_url, NEW.thumbnail_url,
            NEW.created_at, NEW.completed_at);
    RETURN NEW;
END $$""",
    f"""
CREATE FUNCTION longtake_videos_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {SEARCH_PATH} AS $$
DECLARE
    other boolean := coalesce(NEW.video_url <> OLD.video_url, false);
    known record;
BEGIN
    -- Jobs first, then the row, as workers do it.
    IF other OR NEW.force_remigrate THEN
        PERFORM FROM jobs WHERE {_KINDS} AND key = OLD.id::text ORDER BY id FOR UPDATE;
    END IF;
    SELECT source_url, role INTO known FROM assets WHERE id = OLD.id FOR UPDATE;
    IF {_POSTGRESQL_CHANGED} OR (known.role = 'result' AND NEW.video_url IS DISTINCT FROM OLD.video_url) THEN
        RAISE EXCEPTION '{_REFUSED}' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF other AND NEW.video_url IS DISTINCT FROM known.source_url THEN
        WITH gone AS (DELETE FROM jobs WHERE {_KINDS} AND key = OLD.id::text RETURNING {_KEPT})
        INSERT INTO jobs_ended ({_KEPT}, state, error) SELECT {_KEPT}, 'cancelled', '{_WHY}'::jsonb FROM gone;
        {_start_over("IS DISTINCT FROM", "NEW.completed_at")}
    ELSE
        {_change("IS DISTINCT FROM", "NEW.completed_at")}
    END IF;
    RETURN NEW;
END $$""",
    """
CREATE TRIGGER videos_insert INSTEAD OF INSERT ON videos FOR EACH ROW EXECUTE FUNCTION longtake_videos_insert()""",
    """
CREATE TRIGGER videos_update INSTEAD OF UPDATE ON videos FOR EACH ROW EXECUTE FUNCTION longtake_videos_update()""",
)


def upgrade() -> None:
    """Make the views, and what is written through them; on PostgreSQL also the function that tries what is stuck."""
    identifier = "assets.id::text" if is_postgresql() else "assets.id"
    create_views(stuck_videos=_stuck(identifier))
    create_views(migration_health=_health(identifier), migration_failures=_failures(identifier))
    create_views(videos=_view(identifier))
    for statement in POSTGRESQL if is_postgresql() else SQLITE:
        op.execute(statement)
    if is_postgresql():
        op.execute(_FIX_STUCK)
        op.execute("GRANT SELECT, INSERT, UPDATE ON videos TO longtake_engine")


def downgrade() -> None:
    """Remove them; the triggers go with their view."""
    for view in ("videos", "migration_failures", "migration_health", "stuck_videos"):
        op.execute(f"DROP VIEW {view}")
    if is_postgresql():
        op.execute("DROP FUNCTION longtake_videos_update(), longtake_videos_insert(), fix_stuck_pending_migrations()")
