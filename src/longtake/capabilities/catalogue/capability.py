"""The catalogue: titles with their posters and ids, kept up to date by jobs."""

from longtake.capabilities.catalogue.calendar import Calendar
from longtake.capabilities.catalogue.context import CatalogueContext
from longtake.capabilities.catalogue.posters import PosterDownloader, poster_lane
from longtake.capabilities.catalogue.removal import PosterRemoval
from longtake.capabilities.catalogue.search import TitleSearch
from longtake.capabilities.catalogue.sync import Sync
from longtake.capabilities.catalogue.year_lists import YearLists
from longtake.capability import Capability, Context


def capability(context: Context) -> Capability:
    """Return what the catalogue registers."""
    settings, jobs = context.settings, CatalogueContext.of(context)
    handlers = (
        PosterDownloader(jobs, settings.poster_check_days),
        YearLists(jobs),
        TitleSearch(jobs),
        PosterRemoval(jobs.database, jobs.storage),
    )
    return Capability(
        kinds=[
            *(one.kind() for one in handlers),
            *Calendar(jobs).kinds(),
            *Sync(jobs.database, jobs.tmdb).kinds(),
        ],
        lanes=[jobs.tmdb.lane, jobs.bangumi.lane, poster_lane(settings.posters_at_once)],
        keyed_lanes={jobs.tmdb.name: [jobs.tmdb.lane]},
        schedules=[*Sync.schedule(settings.sync_minutes), *Calendar.schedule(settings.calendar_hours)],
        routers="longtake.capabilities.catalogue.routes:routers",
        offers=[jobs],
    )
