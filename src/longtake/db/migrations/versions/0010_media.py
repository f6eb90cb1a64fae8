"""Finished media: what starts copy and thumbnail is the row itself, whoever writes it; views for operators and others.

The triggers know nothing but rows: kinds, lanes and priorities are in `job_kinds`, our public address in `asset_facts`,
both written when the program starts. Outside SQL has no Python to ask: ids and times come from the database there.
"""

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    false,
)

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.media_triggers import POSTGRESQL_MEDIA, POSTGRESQL_MEDIA_DROPS, SQLITE_MEDIA, SQLITE_MEDIA_DROPS
from longtake.db.media_views import POSTGRESQL_VIEWS_DROPS, SQLITE_VIEWS, SQLITE_VIEWS_DROPS, postgresql_views
from longtake.db.schema import engine_only, is_postgresql, now_default, own_rows, partial_index, uuid_default

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

MIRROR_STATES = "('none', 'pending', 'downloading', 'uploading', 'completed', 'failed', 'expired')"
BEFORE_STATES = "('pending', 'downloading', 'uploading', 'completed', 'failed', 'expired')"
ROLES = "('result', 'reference', 'import', 'scene')"
BEFORE_ROLES = "('result', 'reference', 'import')"
PICTURE_STATES = "('none', 'pending', 'processing', 'completed', 'failed')"
SQLITE_ID = "-".join("[0-9a-f]" * digits for digits in (8, 4, 4, 4, 12))
COPIED = (
    "id", "user_id", "task_id", "role", "kind", "position", "source_url", "source_expires_at", "mirror_state",
    "mirror_attempts", "mirror_error", "mirror_tried_at", "mirrored_at", "key", "content_type", "size", "checksum",
    "width", "height", "duration_seconds", "created_at",
)  # fmt: skip


def upgrade() -> None:
    """Make columns, triggers and views."""
    if is_postgresql():
        _upgrade_postgresql()
    else:
        # SQLite changes no CHECK in place: the table is made anew.
        _make_anew([*_before_columns("none"), *_new_columns()], _checks(MIRROR_STATES, with_status=True))
    partial_index(
        "assets_unfinished",
        "assets",
        ["id"],
        "mirror_state IN ('pending', 'downloading', 'uploading', 'failed')"
        " OR thumbnail_state IN ('pending', 'processing', 'failed')",
    )
    op.create_table(
        "asset_facts",
        Column("id", SmallInteger, primary_key=True, server_default="1"),
        # What addresses of our own files begin with; empty while nobody outside can reach us.
        Column("public_prefix", Text, nullable=False, server_default=""),
        CheckConstraint("id = 1", name="asset_facts_one"),
    )
    op.execute("INSERT INTO asset_facts (id) VALUES (1)")
    engine_only("asset_facts")
    _make_pictures()
    for statement in POSTGRESQL_MEDIA if is_postgresql() else SQLITE_MEDIA:
        op.execute(statement)
    _make_indexes()
    for statement in postgresql_views(_version()) if is_postgresql() else SQLITE_VIEWS:
        op.execute(statement)


def downgrade() -> None:
    """Remove them; assets that were never completed had no place before."""
    for statement in POSTGRESQL_VIEWS_DROPS if is_postgresql() else SQLITE_VIEWS_DROPS:
        op.execute(statement)
    for index in ("assets_import", "assets_completed", "assets_object", "assets_newest"):
        op.drop_index(index, "assets")
    for statement in POSTGRESQL_MEDIA_DROPS if is_postgresql() else SQLITE_MEDIA_DROPS:
        op.execute(statement)
    op.drop_table("asset_pictures")
    op.drop_table("asset_facts")
    op.drop_index("assets_unfinished", "assets")
    op.execute("DELETE FROM assets WHERE (key IS NULL AND source_url IS NULL) OR role = 'scene'")
    op.execute("UPDATE assets SET mirror_state = 'pending' WHERE mirror_state = 'none'")
    if not is_postgresql():
        _make_anew(_before_columns("pending"), _checks(BEFORE_STATES, with_status=False))
        return
    for name in ("assets_role", "assets_mirror_state", "assets_source", "assets_pictures"):
        op.drop_constraint(name, "assets")
    for column in reversed(_new_columns()):
        op.drop_column("assets", column.name)
    op.alter_column("assets", "mirror_state", server_default="pending")
    for check in _checks(BEFORE_STATES, with_status=False):
        if check.name in {"assets_role", "assets_mirror_state", "assets_source"}:
            op.create_check_constraint(str(check.name), "assets", check.sqltext)


def _make_pictures() -> None:
    """Make the place where thumbnails wait while the storage takes nothing."""
    op.create_table(
        "asset_pictures",
        Column("asset_id", Identifier, ForeignKey("assets.id", ondelete="CASCADE"), primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("picture", LargeBinary, nullable=False),
    )
    own_rows("asset_pictures")


def _make_indexes() -> None:
    """Make what lists, figures and bringing in the same address again look things up by."""
    op.create_index("assets_newest", "assets", ["user_id", "created_at", "id"])
    # Whether an object belongs to a row is asked before it is removed.
    partial_index("assets_object", "assets", ["key"], "key IS NOT NULL")
    partial_index("assets_completed", "assets", ["completed_at"], "role <> 'reference'")
    # An address may be longer than an entry of PostgreSQL's usual index.
    by_hash = "USING hash " if is_postgresql() else ""
    op.execute(f"CREATE INDEX assets_import ON assets {by_hash}(source_url) WHERE role = 'import'")


def _version() -> int:
    found = op.get_bind().dialect.server_version_info
    return int(found[0]) if found else 0


def _upgrade_postgresql() -> None:
    for column in _new_columns():
        op.add_column("assets", column)
    op.alter_column("assets", "mirror_state", server_default="none")
    for name in ("assets_role", "assets_mirror_state", "assets_source"):
        op.drop_constraint(name, "assets")
    for check in _checks(MIRROR_STATES, with_status=True):
        if check.name in {"assets_role", "assets_mirror_state", "assets_source", "assets_pictures"}:
            op.create_check_constraint(str(check.name), "assets", check.sqltext)


def _new_columns() -> list[Column[Any]]:
    return [
        # Whatever word an application uses; 'completed' is the one that starts something.
        Column("status", Text, nullable=False, server_default="completed"),
        Column("completed_at", Instant),
        Column("force", Boolean, nullable=False, server_default=false()),
        Column("request_id", Text),
        Column("title", Text),
        # Another file takes the place of the one before: pictures of the two never have the same key.
        Column("file_number", Integer, nullable=False, server_default="1"),
        Column("bytes_done", BigInteger),
        Column("thumbnail_state", Text, nullable=False, server_default="none"),
        Column("thumbnail_attempts", Integer, nullable=False, server_default="0"),
        Column("thumbnail_error", Text),
        Column("thumbnail_tried_at", Instant),
        Column("thumbnail_at", Instant),
        Column("thumbnail_key", Text),
        # One that an application brought itself; a `data:image/svg` stands for none.
        Column("thumbnail_url", Text),
        Column("thumbnail_metadata", Json),
        # A picture of under a hundred bytes, as an address that holds it.
        Column("placeholder", Text),
        Column("preview_state", Text, nullable=False, server_default="none"),
        Column("preview_error", Text),
        Column("preview_key", Text),
    ]


def _before_columns(mirror_state: str) -> list[Column[Any]]:
    """Return the columns of migration 0005, for SQLite."""
    return [
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("user_id", Text, nullable=False),
        Column("task_id", Identifier),
        Column("role", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("position", SmallInteger, nullable=False, server_default="0"),
        Column("source_url", Text),
        Column("source_expires_at", Instant),
        Column("mirror_state", Text, nullable=False, server_default=mirror_state),
        Column("mirror_attempts", Integer, nullable=False, server_default="0"),
        Column("mirror_error", Text),
        Column("mirror_tried_at", Instant),
        Column("mirrored_at", Instant),
        Column("key", Text),
        Column("content_type", Text),
        Column("size", BigInteger),
        Column("checksum", Text),
        Column("width", Integer),
        Column("height", Integer),
        Column("duration_seconds", Double),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
    ]


def _checks(states: str, *, with_status: bool) -> list[CheckConstraint]:
    source = "key IS NOT NULL OR source_url IS NOT NULL"
    checks = [
        CheckConstraint(f"role IN {ROLES if with_status else BEFORE_ROLES}", name="assets_role"),
        CheckConstraint("kind IN ('image', 'video')", name="assets_kind"),
        CheckConstraint(f"mirror_state IN {states}", name="assets_mirror_state"),
        CheckConstraint("mirror_state <> 'completed' OR key IS NOT NULL", name="assets_key"),
        # An application writes its row before it has a file.
        CheckConstraint(f"status <> 'completed' OR {source}" if with_status else source, name="assets_source"),
    ]
    if with_status:
        # As the type of ids sees to it on PostgreSQL: keys of objects are made from them, and lead back to them.
        checks.append(CheckConstraint(f"id GLOB '{SQLITE_ID}'", name="assets_id"))
        pictures = f"thumbnail_state IN {PICTURE_STATES} AND preview_state IN {PICTURE_STATES}"
        checks.append(CheckConstraint(pictures, name="assets_pictures"))
    return checks


def _make_anew(columns: list[Column[Any]], checks: list[CheckConstraint]) -> None:
    for index in ("assets_user", "assets_result", "assets_unmirrored"):
        op.drop_index(index, "assets")
    op.rename_table("assets", "assets_before")
    op.create_table("assets", *columns, *checks)
    names = ", ".join(COPIED)
    op.execute(f"INSERT INTO assets ({names}) SELECT {names} FROM assets_before")
    op.drop_table("assets_before")
    op.create_index("assets_user", "assets", ["user_id", "id"])
    partial_index("assets_result", "assets", ["task_id", "position"], "role = 'result'", unique=True)
    partial_index("assets_unmirrored", "assets", ["id"], "mirror_state NOT IN ('completed', 'expired')")
