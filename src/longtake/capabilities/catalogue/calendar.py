"""What Bangumi knows.

The job ``catalogue.calendar`` makes titles of what is on air; ``catalogue.subject`` asks about one title of which
hardly more than its Bangumi id is known. Neither changes what a title has already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import or_, select

from longtake.adapters.providers.bangumi import Bangumi, Subject
from longtake.adapters.providers.trouble import Trouble
from longtake.capabilities.catalogue.new_titles import FIRST_YEAR, LAST_YEAR, NAME_LIMIT, NewTitle
from longtake.capabilities.catalogue.poster_urls import PosterHosts, is_local
from longtake.capabilities.catalogue.source_calls import Asking
from longtake.capabilities.catalogue.tables import CALENDAR, SUBJECT, titles
from longtake.capabilities.catalogue.title_errors import clear_trouble, note_trouble
from longtake.capabilities.catalogue.titles import request_sync, write_titles
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.engine.schedules import Schedule
from longtake.errors import PosterPathInvalid
from longtake.plain_text import clean_plain_text
from longtake.services.provider_calls.lanes import act_on_trouble

#: Bangumi names no limit; this is far below what a browser does.
LANE = Lane("bangumi", max_running=2, rate=(4, 1.0))
#: The argument of a refresh that somebody asked for: it happens also when there are no titles yet.
BY_HAND = "by_hand"


class Calendar:
    """Runs and settles what is asked of Bangumi."""

    def __init__(
        self,
        database: Database,
        engine: Callable[[], Engine],
        bangumi: Bangumi,
        hosts: PosterHosts,
        asking: Asking,
    ) -> None:
        self._database = database
        self._engine = engine
        self._bangumi = bangumi
        self._hosts = hosts
        self._asking = asking

    def kinds(self) -> list[JobKind]:
        """Return the job kinds."""
        lane = self._bangumi.lane.name
        return [
            JobKind(CALENDAR, self.refresh, self.settle, lane=lane, time_limit=60.0),
            JobKind(SUBJECT, self.ask, self.settle, lane=lane, time_limit=60.0),
        ]

    @staticmethod
    def schedule(hours: int) -> list[Schedule]:
        """Return when the calendar is refreshed by itself."""
        return [Schedule(CALENDAR, CALENDAR, every=hours * 3600.0)] if hours else []

    async def refresh(self, job: Job) -> Outcome:
        """Ask for the calendar; by itself only where there is a catalogue: nobody else wants titles."""
        if not job.args.get(BY_HAND) and not await self._database.read(_has_titles):
            return Done()
        subjects = await self._asking.ask(job, self._bangumi.calendar)
        return subjects if isinstance(subjects, Outcome) else Done(data=subjects)

    async def ask(self, job: Job) -> Outcome:
        """Ask about one title."""
        subject = await self._asking.ask(job, self._bangumi.subject, int(job.args["bangumi_id"]))
        if subject is None:
            return Fail("NOT_FOUND", f"Bangumi has no subject {job.args['bangumi_id']}.")
        return subject if isinstance(subject, Outcome) else Done(data=[subject])

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write titles of what came, and at titles what went wrong."""
        for one in settlements:
            match one.outcome:
                case Done(data=list() as subjects):
                    self._write(tx, one.job, subjects)
                case Snooze(data=Trouble() as trouble):
                    _note(tx, one.job, trouble.code, trouble.message)
                    act_on_trouble(tx, self._bangumi, trouble)
                case Fail(code=code, message=message):
                    _note(tx, one.job, code, message)

    def _write(self, tx: Transaction, job: Job, subjects: Sequence[Subject]) -> None:
        new = [title_of(subject) for subject in subjects]
        engine = self._engine()
        written = write_titles(tx, engine, self._hosts, new, only_missing=True, request_id=job.request_id)
        if job.kind == SUBJECT:
            clear_trouble(tx, titles.c.id == job.key, "bangumi")
        if job.kind == CALENDAR:
            # Also when it brought nothing new: what else is due is seen to as often as it is refreshed.
            request_sync(tx, engine, job.request_id)
            created = sum(one.result == "created" for one in written)
            append_event(tx, "catalogue.calendar", subject=job.id, data={"titles": len(written), "created": created})


def _note(tx: Transaction, job: Job, code: str, message: str) -> None:
    """Write at a title that Bangumi did not tell of it; one that somebody has completed since does not need it."""
    if job.kind == SUBJECT:
        lacking = or_(titles.c.title_japanese.is_(None), titles.c.year.is_(None))
        note_trouble(tx, (titles.c.id == job.key) & lacking, "bangumi", code, message)


def title_of(subject: Subject) -> NewTitle:
    """Return what a subject says, as far as it can be kept: nobody is there to correct it."""
    names = (clean_plain_text(name, most=NAME_LIMIT) or None for name in (subject.name, subject.name_chinese))
    japanese, chinese = names
    year = subject.year if subject.year is not None and FIRST_YEAR <= subject.year <= LAST_YEAR else None
    return NewTitle(
        bangumi_id=subject.id, title_japanese=japanese, title_chinese=chinese, year=year, poster=_cover(subject.cover)
    )


def _cover(address: str) -> str | None:
    # Written without a scheme it means the one of the page.
    address = f"https:{address}" if address.startswith("//") else address
    try:
        return None if not address or is_local(address) else address
    except PosterPathInvalid:
        return None


def _has_titles(tx: Transaction) -> bool:
    return tx.execute(select(titles.c.id).limit(1)).first() is not None
