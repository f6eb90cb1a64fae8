"""What starts copies and thumbnails: triggers on the row of an asset, whatever wrote it.

They know nothing but rows: kinds, lanes and priorities are in `job_kinds`, our public address in `asset_facts`, both
written when the program starts. The two databases say the same, in their words:

- A *completion* is a row that becomes `completed` with an address, or whose `force` is set. It starts exactly one copy,
  unless the file is ours already (it has a key, or its address begins with our public prefix), and exactly one
  thumbnail, unless there is one (a `data:image/svg` counts as none). References have no thumbnail.
- Second chance: a copy that completes while there is no thumbnail starts one.
- A job that is there already is enough, also in its last moment: its key is the asset's id. On PostgreSQL the triggers
  look for it first. Waiting for it would be a deadlock: the transaction that ends it waits for the row.
"""

from alembic import op
from sqlalchemy import CheckConstraint, Column, ForeignKey, LargeBinary, SmallInteger, Text

from longtake.db.dialects import Identifier
from longtake.db.schema import SEARCH_PATH, SQLITE_NOW, engine_only, is_postgresql, own_rows, sqlite_moment

_COMPLETED = "NEW.status = 'completed' AND NEW.source_url IS NOT NULL"
_BECOMES = (
    "OLD.status <> 'completed' OR (OLD.source_url IS NULL AND NEW.source_url IS NOT NULL)"
    " OR (NEW.force AND NOT OLD.force)"
)
_OURS = (
    "EXISTS (SELECT 1 FROM asset_facts WHERE public_prefix <> ''"
    " AND substr(NEW.source_url, 1, length(public_prefix)) = public_prefix)"
)
_WANTS_COPY = f"((NEW.key IS NULL AND NEW.mirror_state <> 'completed') OR NEW.force) AND NOT {_OURS}"
_WANTS_PICTURE = (
    "NEW.role <> 'reference' AND NEW.thumbnail_key IS NULL AND NEW.thumbnail_state <> 'completed'"
    " AND (NEW.thumbnail_url IS NULL OR lower(substr(NEW.thumbnail_url, 1, 14)) = 'data:image/svg')"
)

# -- SQLite ----------------------------------------------------------------------------------------------------------

#: Rows of our own say when they were completed, by the program's clock; those of others have the system's.
_SQLITE_WHEN = f"coalesce({sqlite_moment('NEW.completed_at')}, {SQLITE_NOW})"
#: Whatever an application's clock or time zone says, its job does not wait.
_SQLITE_DUE = f"min({_SQLITE_WHEN}, {SQLITE_NOW})"


def _sqlite_job(kind: str, when: str) -> str:
    return f"""
    INSERT INTO jobs (kind, key, lane, priority, max_attempts, args, subject, request_id, due_at, created_at)
    SELECT name, NEW.id, lane, priority, max_attempts, json_object('asset', NEW.id), NEW.id, NEW.request_id,
           {_SQLITE_DUE}, {_SQLITE_DUE}
    FROM job_kinds WHERE name = '{kind}' AND {when}
      AND NOT EXISTS (SELECT 1 FROM jobs WHERE kind = '{kind}' AND key = NEW.id);"""


def _sqlite_start(name: str, moment: str, condition: str) -> str:
    copy, picture = f"({_COMPLETED}) AND {_WANTS_COPY}", f"NEW.status = 'completed' AND {_WANTS_PICTURE}"
    return f"""
CREATE TRIGGER {name} AFTER {moment} ON assets WHEN NEW.status = 'completed' AND {condition} BEGIN
    {_sqlite_job("assets.mirror", copy)}
    {_sqlite_job("assets.thumbnail", picture)}
    UPDATE assets SET completed_at = {_SQLITE_WHEN}, force = 0,
        mirror_state = CASE WHEN {copy} THEN 'pending' ELSE mirror_state END,
        thumbnail_state = CASE WHEN {picture} THEN 'pending' ELSE thumbnail_state END
    WHERE id = NEW.id;
END"""


_SQLITE_SECOND_CHANCE = f"""
CREATE TRIGGER assets_second_chance AFTER UPDATE OF mirror_state ON assets
WHEN NEW.mirror_state = 'completed' AND OLD.mirror_state <> 'completed'
  AND NEW.thumbnail_state IN ('none', 'failed') AND {_WANTS_PICTURE} BEGIN
    {_sqlite_job("assets.thumbnail", "1")}
    UPDATE assets SET thumbnail_state = 'pending' WHERE id = NEW.id;
END"""

# -- PostgreSQL ------------------------------------------------------------------------------------------------------


def _postgresql_jobs(which: str) -> str:
    return f"""
    INSERT INTO jobs (kind, key, lane, priority, max_attempts, args, subject, request_id)
    SELECT name, NEW.id::text, lane, priority, max_attempts, jsonb_build_object('asset', NEW.id), NEW.id::text,
           NEW.request_id
    FROM (
        SELECT * FROM job_kinds
        WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.kind = job_kinds.name AND jobs.key = NEW.id::text)
    ) AS kinds
    WHERE {which}
    ON CONFLICT DO NOTHING;"""


_POSTGRESQL_START = f"""
CREATE FUNCTION longtake_assets_start() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {SEARCH_PATH} AS $$
DECLARE
    wants_copy boolean := {_COMPLETED} AND {_WANTS_COPY};
    wants_picture boolean := {_WANTS_PICTURE};
BEGIN{_postgresql_jobs("(wants_copy AND name = 'assets.mirror') OR (wants_picture AND name = 'assets.thumbnail')")}
    UPDATE assets SET completed_at = coalesce(completed_at, longtake_now()), force = false,
        mirror_state = CASE WHEN wants_copy THEN 'pending' ELSE mirror_state END,
        thumbnail_state = CASE WHEN wants_picture THEN 'pending' ELSE thumbnail_state END
    WHERE id = NEW.id;
    RETURN NULL;
END $$"""

_POSTGRESQL_SECOND_CHANCE = f"""
CREATE FUNCTION longtake_assets_second_chance() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {SEARCH_PATH} AS $$
BEGIN{_postgresql_jobs("name = 'assets.thumbnail'")}
    UPDATE assets SET thumbnail_state = 'pending' WHERE id = NEW.id;
    RETURN NULL;
END $$"""

_POSTGRESQL_TRIGGERS = f"""
CREATE TRIGGER assets_start_new AFTER INSERT ON assets FOR EACH ROW
WHEN (NEW.status = 'completed') EXECUTE FUNCTION longtake_assets_start();

CREATE TRIGGER assets_start_changed AFTER UPDATE OF status, source_url, force ON assets FOR EACH ROW
WHEN (NEW.status = 'completed' AND ({_BECOMES})) EXECUTE FUNCTION longtake_assets_start();

CREATE TRIGGER assets_second_chance AFTER UPDATE OF mirror_state ON assets FOR EACH ROW
WHEN (NEW.mirror_state = 'completed' AND OLD.mirror_state <> 'completed'
      AND NEW.thumbnail_state IN ('none', 'failed') AND {_WANTS_PICTURE})
EXECUTE FUNCTION longtake_assets_second_chance()
"""

SQLITE = (
    _sqlite_start("assets_start_new", "INSERT", "1"),
    _sqlite_start("assets_start_changed", "UPDATE OF status, source_url, force", f"({_BECOMES})"),
    _SQLITE_SECOND_CHANCE,
)
POSTGRESQL = (_POSTGRESQL_START, _POSTGRESQL_SECOND_CHANCE, _POSTGRESQL_TRIGGERS)


def upgrade() -> None:
    """Make the triggers and the tables they need."""
    op.create_table(
        "asset_facts",
        Column("id", SmallInteger, primary_key=True, server_default="1"),
        # What addresses of our own files begin with; empty while no one outside can reach us.
        Column("public_prefix", Text, nullable=False, server_default=""),
        CheckConstraint("id = 1", name="asset_facts_one"),
    )
    op.execute("INSERT INTO asset_facts (id) VALUES (1)")
    engine_only("asset_facts")
    # Where thumbnails wait while the storage takes nothing.
    op.create_table(
        "asset_pictures",
        Column("asset_id", Identifier, ForeignKey("assets.id", ondelete="CASCADE"), primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("picture", LargeBinary, nullable=False),
    )
    own_rows("asset_pictures")
    for statement in POSTGRESQL if is_postgresql() else SQLITE:
        op.execute(statement)


def downgrade() -> None:
    """Remove them."""
    for trigger in ("assets_second_chance", "assets_start_changed", "assets_start_new"):
        op.execute(f"DROP TRIGGER {trigger}{' ON assets' if is_postgresql() else ''}")
    if is_postgresql():
        op.execute("DROP FUNCTION longtake_assets_second_chance(), longtake_assets_start()")
    for table in ("asset_pictures", "asset_facts"):
        op.drop_table(table)
