"""On PostgreSQL, the triggers of assets do not wait for a job that is about to end.

A transaction that ends a copy has locked the job and waits for the asset's row, which the trigger's transaction holds:
waiting for the job would be a deadlock. A job that is there already is enough, also in its last moment.
"""

from alembic import op

from longtake.db.schema import is_postgresql

_FUNCTIONS = ("longtake_assets_start()", "longtake_assets_second_chance()")
_KINDS = "FROM job_kinds"
_KINDS_WITHOUT_JOB = """FROM (
        SELECT * FROM job_kinds
        WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.kind = job_kinds.name AND jobs.key = NEW.id::text)
    ) AS kinds"""


def upgrade() -> None:
    """Have them look first."""
    _replace(_KINDS, _KINDS_WITHOUT_JOB)


def downgrade() -> None:
    """Have them wait."""
    _replace(_KINDS_WITHOUT_JOB, _KINDS)


def _replace(old: str, new: str) -> None:
    for function in _FUNCTIONS if is_postgresql() else ():
        found = op.get_bind().exec_driver_sql(f"SELECT pg_get_functiondef('{function}'::regprocedure)")
        op.execute(found.scalar_one().replace(old, new))
