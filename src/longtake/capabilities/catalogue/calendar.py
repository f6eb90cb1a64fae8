"""Titles from Bangumi.

The job ``catalogue.calendar`` adds a title for every show on air; ``catalogue.subject`` completes one title of which
little more than its Bangumi id is known. Neither changes a field that a title already has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from longtake.adapters.providers.bangumi import Subject
from longtake.capabilities.catalogue.errors import PosterPathInvalid
from longtake.capabilities.catalogue.new_titles import FIRST_YEAR, LAST_YEAR, NAME_LIMIT, NewTitle
from longtake.capabilities.catalogue.poster_fetcher import is_local
from longtake.capabilities.catalogue.store import clear_error, record_error
from longtake.capabilities.catalogue.tables import CALENDAR, SUBJECT, titles
from longtake.capabilities.catalogue.titles import WrittenTitle, request_sync, write_titles
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.services.provider_calls import Trouble, act_on_trouble
from longtake.validation import clean_plain_text

if TYPE_CHECKING:
    from longtake.capabilities.catalogue.capability import CatalogueContext

#: The argument of a requested refresh, which runs even while there are no titles.
BY_HAND = "by_hand"


class Calendar:
    """The job kinds that ask Bangumi: for the calendar, and for single titles."""

    def __init__(self, context: CatalogueContext) -> None:
        self._context = context
        self._bangumi = context.bangumi

    def kinds(self) -> list[JobKind]:
        lane = self._bangumi.lane.name
        return [
            JobKind(CALENDAR, self.refresh, self.settle, lane=lane, time_limit=60.0, permit="call"),
            JobKind(SUBJECT, self.complete, self.settle, lane=lane, time_limit=60.0, permit="call"),
        ]

    async def refresh(self, job: Job) -> Outcome:
        """Ask for the calendar. A scheduled refresh does nothing while the catalogue is empty, thus not in use."""
        if not job.args.get(BY_HAND) and not await self._context.database.read(_has_titles):
            return Done()
        subjects = await self._context.ask(job, self._bangumi, self._bangumi.calendar)
        return subjects if isinstance(subjects, Outcome) else Done(data=subjects)

    async def complete(self, job: Job) -> Outcome:
        """Ask for what is missing in one title."""
        fetch = partial(self._bangumi.subject, int(job.args["bangumi_id"]))
        subject = await self._context.ask(job, self._bangumi, fetch)
        if subject is None:
            return Fail("NOT_FOUND", f"Bangumi has no subject {job.args['bangumi_id']}.")
        return subject if isinstance(subject, Outcome) else Done(data=[subject])

    def settle(self, tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write titles, and errors at titles: all titles at once, so that their rows are locked in one order."""
        answers = [(one.job, one.outcome.data) for one in settlements if isinstance(one.outcome.data, list)]
        new = [title_of(subject) for _job, subjects in answers for subject in subjects]
        request_id = next((job.request_id for job, _subjects in answers), None)
        about = [str(one.job.key) for one in settlements if one.job.kind == SUBJECT]
        written = iter(
            write_titles(tx, engine, self._context.hosts, new, only_missing=True, also=about, request_id=request_id)
        )
        for job, subjects in answers:
            _finish(tx, engine, job, list(islice(written, len(subjects))))
        for one in settlements:
            match one.outcome:
                case Snooze(data=Trouble() as trouble):
                    _record(tx, one.job, trouble.code, trouble.message)
                    act_on_trouble(tx, self._bangumi, trouble)
                case Fail(code=code, message=message):
                    _record(tx, one.job, code, message)


def _finish(tx: Transaction, engine: Engine, job: Job, written: Sequence[WrittenTitle]) -> None:
    if job.kind == SUBJECT:
        clear_error(tx, titles.c.id == job.key, "bangumi")
    if job.kind == CALENDAR:
        # Even without a new title: a refresh also syncs everything else that is due.
        request_sync(tx, engine, job.request_id)
        created = sum(one.result == "created" for one in written)
        append_event(tx, "catalogue.calendar", subject=job.id, data={"titles": len(written), "created": created})


def _record(tx: Transaction, job: Job, code: str, message: str) -> None:
    """Write the error at the title, unless it has been completed since."""
    if job.kind == SUBJECT:
        lacking = or_(titles.c.title_japanese.is_(None), titles.c.year.is_(None))
        record_error(tx, (titles.c.id == job.key) & lacking, "bangumi", code, message)


def title_of(subject: Subject) -> NewTitle:
    """Return a title with those of the subject's fields that are valid: no person is there to correct the others."""
    names = (clean_plain_text(name, most=NAME_LIMIT) or None for name in (subject.name, subject.name_chinese))
    japanese, chinese = names
    year = subject.year if subject.year is not None and FIRST_YEAR <= subject.year <= LAST_YEAR else None
    return NewTitle(
        bangumi_id=subject.id, title_japanese=japanese, title_chinese=chinese, year=year, poster=_cover(subject.cover)
    )


def _cover(address: str) -> str | None:
    # Bangumi sends some addresses without a scheme.
    address = f"https:{address}" if address.startswith("//") else address
    try:
        return None if not address or is_local(address) else address
    except PosterPathInvalid:
        return None


def _has_titles(tx: Transaction) -> bool:
    return tx.execute(select(titles.c.id).limit(1)).first() is not None
