"""A job kind of your own beside the built-in ones.

longtake serve --app examples.own_job_kind:register
longtake schedules run shop.report          # now, instead of at six
longtake jobs list --kind shop.report
"""

import asyncio

from longtake import Done, Job, JobKind, Lane, Outcome, Retry, Schedule, Steps
from longtake.server import Application

WAITS = Steps((60, 300, 1800))


def register(application: Application) -> None:
    """Declare what this program adds. Nothing is found by import or decorator."""

    async def send_report(job: Job) -> Outcome:
        health = await application.database.read(lambda tx: tx.sql("SELECT count(*) FROM jobs_ended"))
        try:
            await send_mail(job.args["to"], f"{health[0][0]} jobs have ended so far.")
        except OSError as error:
            return Retry("MAIL_FAILED", str(error))
        return Done()

    application.add(
        kinds=[JobKind("shop.report", send_report, lane="mail", time_limit=30, back_off=WAITS)],
        lanes=[Lane("mail", max_running=5, rate=(100, 60.0), burst=10)],
        schedules=[Schedule("shop.report", kind="shop.report", args={"to": "owner"}, cron="0 6 * * *")],
    )


async def send_mail(to: str, text: str) -> None:
    """Stand in for your mail server."""
    await asyncio.sleep(0)
    print(f"to {to}: {text}", flush=True)
