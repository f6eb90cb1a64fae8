"""The tables of the catalogue for SQLAlchemy Core, created by migrations, and the kinds of its jobs."""

from sqlalchemy import BigInteger, Column, Double, Integer, SmallInteger, Table, Text

from longtake.db.dialects import Identifier, Instant, Json
from longtake.engine.tables import metadata

#: The kinds of jobs.
SYNC = "catalogue.sync"
SYNC_POSTERS = "catalogue.sync_posters"
SYNC_IDS = "catalogue.sync_ids"
POSTER = "catalogue.poster"
YEAR = "catalogue.year"
SEARCH = "catalogue.search"
CALENDAR = "catalogue.calendar"
SUBJECT = "catalogue.subject"
REMOVE = "catalogue.remove"
KINDS = (SYNC, SYNC_POSTERS, SYNC_IDS, POSTER, YEAR, SEARCH, CALENDAR, SUBJECT, REMOVE)

titles = Table(
    "titles",
    metadata,
    Column("id", Identifier, primary_key=True),
    # What identifies the title when it is added again: its Bangumi id, else its name and year.
    Column("identity", Text),
    Column("bangumi_id", BigInteger),
    Column("title_japanese", Text),
    Column("title_chinese", Text),
    Column("title_english", Text),
    Column("year", SmallInteger),
    Column("poster_source", Text),
    Column("poster_hash", Text),
    # The address for readers: the source until the poster is stored.
    Column("poster_url", Text),
    Column("thumbnail_url", Text),
    Column("tmdb_id", BigInteger),
    # How the id was found: `title`, `search`, `import` (given with the title) or `person`, which nothing overwrites.
    # `person` without an id means that TMDB does not have the title.
    Column("tmdb_found_by", Text),
    Column("tmdb_looked_up_at", Instant),
    # When the next look-up is due; null when there is nothing to look up.
    Column("tmdb_due_at", Instant),
    Column("tmdb_candidates", Json),
    Column("error_of", Text),
    Column("error_code", Text),
    Column("error", Text),
    Column("error_at", Instant),
    Column("created_at", Instant),
    Column("updated_at", Instant),
)

#: One row for each picture, however many titles have it.
posters = Table(
    "posters",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("url", Text),
    # Its name below /posters/ once it is stored; another version has another name.
    Column("file", Text),
    Column("thumbnail", Text),
    Column("version", Integer),
    Column("size", BigInteger),
    Column("checksum", Text),
    Column("width", Integer),
    Column("height", Integer),
    # The address it was last fetched from, which may be that of another size.
    Column("fetched_from", Text),
    Column("etag", Text),
    Column("last_modified", Text),
    # When to fetch it, or to ask the source whether it has changed.
    Column("due_at", Instant),
    Column("failures", SmallInteger),
    Column("error_code", Text),
    Column("error", Text),
    Column("checked_at", Instant),
    Column("stored_at", Instant),
    Column("created_at", Instant),
)

#: The years whose list of Japanese shows was fetched from TMDB.
tmdb_years = Table(
    "tmdb_years",
    metadata,
    Column("year", SmallInteger, primary_key=True),
    Column("pages", Integer),
    Column("error", Text),
    Column("fetched_at", Instant),
)

tmdb_shows = Table(
    "tmdb_shows",
    metadata,
    Column("year", SmallInteger, primary_key=True),
    Column("tmdb_id", BigInteger, primary_key=True),
    # The original name without differences of width, case and spaces.
    Column("folded_name", Text),
    Column("name", Text),
    Column("original_name", Text),
    Column("language", Text),
    Column("first_air_date", Text),
    Column("popularity", Double),
    Column("fetched_by", Identifier),
)
