"""The catalogue: titles, posters, and what TMDB's lists of years had."""

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Integer, PrimaryKeyConstraint, SmallInteger, Text

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import engine_only, now_default, partial_index, uuid_default


def upgrade() -> None:
    """Make the tables."""
    _titles()
    _posters()
    _tmdb()
    engine_only("titles", "posters", "tmdb_years", "tmdb_shows")


def downgrade() -> None:
    """Remove them; the posters' files stay, and are found again by name."""
    for table in ("tmdb_shows", "tmdb_years", "posters", "titles"):
        op.drop_table(table)


def _titles() -> None:
    op.create_table(
        "titles",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("identity", Text, nullable=False),
        Column("bangumi_id", BigInteger),
        Column("title_japanese", Text),
        Column("title_chinese", Text),
        Column("title_english", Text),
        Column("year", SmallInteger),
        Column("poster_source", Text),
        Column("poster_hash", Text),
        Column("poster_url", Text),
        Column("thumbnail_url", Text),
        Column("tmdb_id", BigInteger),
        Column("tmdb_found_by", Text),
        Column("tmdb_looked_up_at", Instant),
        Column("tmdb_due_at", Instant),
        Column("tmdb_candidates", Json),
        Column("error_of", Text),
        Column("error_code", Text),
        Column("error", Text),
        Column("error_at", Instant),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("updated_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("tmdb_found_by IN ('title', 'search', 'import', 'person')", name="titles_found_by"),
        CheckConstraint("error_of IN ('poster', 'tmdb', 'bangumi')", name="titles_error_of"),
        # What a person chose, or was found, is not looked up again.
        CheckConstraint("tmdb_found_by IS NULL OR tmdb_due_at IS NULL", name="titles_found"),
    )
    op.create_index("titles_identity", "titles", ["identity"], unique=True)
    partial_index("titles_bangumi", "titles", ["bangumi_id"], "bangumi_id IS NOT NULL", unique=True)
    partial_index("titles_poster", "titles", ["poster_hash"], "poster_hash IS NOT NULL")
    partial_index("titles_to_look_up", "titles", ["tmdb_due_at", "id"], "tmdb_due_at IS NOT NULL")
    partial_index("titles_in_doubt", "titles", ["id"], "tmdb_candidates IS NOT NULL")
    partial_index("titles_in_trouble", "titles", ["id"], "error_code IS NOT NULL")


def _posters() -> None:
    op.create_table(
        "posters",
        Column("hash", Text, primary_key=True),
        Column("url", Text, nullable=False),
        Column("file", Text),
        Column("thumbnail", Text),
        Column("version", Integer, nullable=False, server_default="0"),
        Column("size", BigInteger),
        Column("checksum", Text),
        Column("width", Integer),
        Column("height", Integer),
        Column("fetched_from", Text),
        Column("etag", Text),
        Column("last_modified", Text),
        Column("due_at", Instant),
        Column("failures", SmallInteger, nullable=False, server_default="0"),
        Column("error_code", Text),
        Column("error", Text),
        Column("checked_at", Instant),
        Column("stored_at", Instant),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("(file IS NULL) = (checksum IS NULL)", name="posters_stored"),
    )
    partial_index("posters_due", "posters", ["due_at", "hash"], "due_at IS NOT NULL")
    partial_index("posters_missing", "posters", ["hash"], "file IS NULL")


def _tmdb() -> None:
    op.create_table(
        "tmdb_years",
        Column("year", SmallInteger, primary_key=True, autoincrement=False),
        Column("pages", Integer, nullable=False),
        Column("error", Text),
        Column("fetched_at", Instant, nullable=False),
    )
    op.create_table(
        "tmdb_shows",
        Column("year", SmallInteger, nullable=False),
        Column("tmdb_id", BigInteger, nullable=False),
        Column("folded_name", Text, nullable=False),
        Column("name", Text, nullable=False),
        Column("original_name", Text, nullable=False),
        Column("language", Text, nullable=False),
        Column("first_air_date", Text, nullable=False),
        Column("popularity", Double, nullable=False),
        Column("fetched_by", Identifier, nullable=False),
        PrimaryKeyConstraint("year", "tmdb_id"),
    )
    op.create_index("tmdb_shows_name", "tmdb_shows", ["year", "folded_name"])
