"""Views of scene images for operators, in SQL's own words. Used by migration 0011 alone: it must never change.

`image_job_queue` has a row for each status, `image_job_figures` one row about the last 24 hours.
"""


def _queue(key: str) -> str:
    # A worker that died or was stopped leaves `processing` behind; its job waits for the next one.
    waits = f"(SELECT 1 FROM jobs WHERE jobs.kind = 'scenes.image' AND jobs.key = {key} AND jobs.state = 'ready')"
    status = f"CASE WHEN status = 'processing' AND EXISTS {waits} THEN 'queued' ELSE status END"
    return f"""
CREATE VIEW image_job_queue AS
SELECT status, count(*) AS jobs, min(queued_at) AS oldest_queued_at
FROM (SELECT {status} AS status, queued_at FROM image_jobs) AS now_so GROUP BY status"""


def _figures(day_ago: str, seconds: str) -> str:
    def mean(what: str) -> str:
        return f"avg({what}) FILTER (WHERE status = 'completed')"

    return f"""
CREATE VIEW image_job_figures AS
SELECT count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    1.0 * count(*) FILTER (WHERE status = 'failed')
        / nullif(count(*) FILTER (WHERE status IN ('completed', 'failed')), 0) AS failure_rate,
    {mean(seconds)} AS mean_seconds, {mean("provider_ms")} AS mean_provider_ms,
    {mean("storage_ms")} AS mean_storage_ms, {mean("total_ms")} AS mean_total_ms
FROM image_jobs WHERE completed_at > {day_ago}"""


SQLITE_SCENE_VIEWS = (
    _queue("image_jobs.id"),
    _figures(
        "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 day')",
        "(julianday(completed_at) - julianday(started_at)) * 86400.0",
    ),
)
SCENE_VIEWS_DROPS = ("DROP VIEW image_job_figures", "DROP VIEW image_job_queue")


def postgresql_scene_views(version: int) -> list[str]:
    """Return what makes the views. They ask with the rights of their reader, which PostgreSQL 14 does not know yet."""
    made = [
        _queue("image_jobs.id::text"),
        _figures(
            "longtake_now() - interval '1 day'", "extract(epoch FROM completed_at - started_at)::double precision"
        ),
    ]
    as_reader = " WITH (security_invoker = true) AS" if version >= 15 else " AS"  # noqa: PLR2004 - its first version
    names = ("image_job_queue", "image_job_figures")
    grants = [f"GRANT SELECT ON {name} TO longtake_engine" for name in names]
    return [*(one.replace(" AS", as_reader, 1) for one in made), *grants]
