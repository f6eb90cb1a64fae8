"""`./dev demo`: a real server, twenty jobs, kill -9 in the middle, and proof that nothing was lost or done twice.

Everything happens in a temporary folder and takes well under 30 seconds. `--keep` leaves the server running.
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from longtake import Engine, JobRequest, Transaction, migrate_up, open_database
from longtake.app.application import Application, find_register
from longtake.settings import Settings

APP = "demo_app:register"
JOBS = 20
KILL_AFTER = 6
DEADLINE_SECONDS = 28.0
console = Console(highlight=False)


class DemoFailed(Exception):
    """Something did not come out as promised."""


class Demo:
    """A folder with a database, and the server that owns it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="longtake-demo-"))
        self.database = self.folder / "longtake.db"
        self.log = self.folder / "server.log"
        self.give_up_at = time.monotonic() + DEADLINE_SECONDS
        self.server: subprocess.Popen[bytes] | None = None
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGTAKE_")} | {
            "LONGTAKE_DATA_DIR": str(self.folder),
            "LONGTAKE_PORT": "0",
            "PYTHONPATH": str(Path(__file__).parent),
        }

    def start_server(self) -> str:
        """Start it as its own process and wait until it answers; return its address."""
        (self.folder / "server.json").unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "longtake", "serve", "--app", APP],
                env=self.environment,
                stdout=log,
                stderr=log,
                # A server that stays (--keep) must not end with this terminal's Ctrl-C.
                start_new_session=True,
            )
        self.wait_for((self.folder / "server.json").exists, "the server's start")
        content = json.loads((self.folder / "server.json").read_text())
        return str(content["url"])

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Look until it is so; a server that died or a deadline that passed ends the demo."""
        while not condition():
            if self.server is not None and self.server.poll() is not None:
                raise DemoFailed(f"the server ended by itself while waiting for {what}")
            if time.monotonic() > self.give_up_at:
                raise DemoFailed(f"{what} took too long")
            time.sleep(0.05)

    def kill_server(self, number: signal.Signals) -> int:
        """Send the signal and wait for the end."""
        if self.server is None or self.server.poll() is not None:
            return 0
        self.server.send_signal(number)
        return self.server.wait(timeout=30)

    def count(self, query: str) -> int:
        """Ask the file itself, beside the server: readers never wait."""
        with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            return int(connection.execute(query).fetchone()[0])

    def results(self, kind: str) -> int:
        """Return how many results there are."""
        return self.count(f"SELECT count(*) FROM demo_results WHERE kind = '{kind}'")

    def longtake(self, *arguments: str) -> str:
        """Run the command line as a user would."""
        command = [sys.executable, "-m", "longtake", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=20, check=True
        ).stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the server running and print its address")
    keep = parser.parse_args().keep
    demo = Demo()
    succeeded = False
    try:
        url = show(demo)
        succeeded = True
        say_where_to_look(demo, url, keep=keep)
    except DemoFailed as error:
        console.print(f"\nThe demo failed: {error}.", style="bold red")
        if demo.log.exists():
            console.print("The end of the server's log:")
            console.print("\n".join(demo.log.read_text(errors="replace").splitlines()[-20:]), markup=False)
    except KeyboardInterrupt:
        console.print("\nStopped.")
    finally:
        if not (keep and succeeded):
            demo.kill_server(signal.SIGTERM)
            shutil.rmtree(demo.folder, ignore_errors=True)
    return 0 if succeeded else 1


def show(demo: Demo) -> str:
    """Go through the whole story; return the server's address."""
    enqueue(demo)
    console.print(f"{JOBS} jobs are in the database. Each follows a slow provider, then has a poster made.")
    demo.start_server()
    console.print("The server runs as a process of its own, with a worker inside.\n")
    columns = (TextColumn("{task.description:>8}"), BarColumn(40), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        bars = {kind: progress.add_task(f"{kind}s", total=JOBS) for kind in ("video", "poster")}

        def at_least(number: int) -> Callable[[], bool]:
            return lambda: draw(demo, progress, bars) >= number

        demo.wait_for(at_least(KILL_AFTER), "the first results")
        running = demo.count("SELECT count(*) FROM jobs WHERE state = 'running'")
        status = demo.kill_server(signal.SIGKILL)
        done = draw(demo, progress, bars)
        progress.console.print(f"kill -9: the server is gone (status {status}), {running} jobs were running in it.")
        killed_at = time.monotonic()
        url = demo.start_server()
        demo.wait_for(at_least(done + 1), "the first result after the restart")
        progress.console.print(
            f"Started again: the first result came {time.monotonic() - killed_at:.1f} s after the kill."
        )
        demo.wait_for(at_least(2 * JOBS), "all results")
    judge(demo)
    return url


def enqueue(demo: Demo) -> None:
    """Write all jobs in one transaction, before any server runs: a job is a row, it can wait."""
    settings = Settings(data_dir=demo.folder)
    migrate_up(settings.database_url)
    database = open_database(settings.database_url, owner="the demo")
    try:
        database.run_blocking(_enqueue_all, Application(settings, database).build(find_register(APP)))
    finally:
        database.close()


def _enqueue_all(tx: Transaction, engine: Engine) -> None:
    engine.declare(tx)
    engine.enqueue_many(tx, [JobRequest("demo.video", {"number": number}) for number in range(JOBS)])


def draw(demo: Demo, progress: Progress, bars: dict[str, TaskID]) -> int:
    """Bring the bars up to date; return how many results there are in all."""
    counts = {kind: demo.results(f"demo.{kind}") for kind in bars}
    for kind, bar in bars.items():
        progress.update(bar, completed=counts[kind])
    return sum(counts.values())


def judge(demo: Demo) -> None:
    """Compare what happened with what was promised."""
    twice = demo.count("SELECT count(*) FROM (SELECT 1 FROM demo_results GROUP BY kind, number HAVING count(*) > 1)")
    different = demo.count("SELECT count(*) FROM (SELECT DISTINCT kind, number FROM demo_results)")
    demo.wait_for(lambda: demo.count("SELECT count(*) FROM jobs WHERE kind LIKE 'demo.%'") == 0, "the last job's end")
    failed = demo.count("SELECT count(*) FROM jobs_ended WHERE kind LIKE 'demo.%' AND state <> 'done'")
    calls = len((demo.folder / "provider-calls.txt").read_text().splitlines())
    total = 2 * JOBS
    console.print(
        f"\nAll {total} jobs have ended, {failed} failed. Results: {different} of {total}, {twice} of them twice."
    )
    console.print(
        f"The provider was called {calls} times: a call that the kill cut off is made again, its effect is not."
    )
    if twice or failed or different != total:
        raise DemoFailed("an effect is missing or happened twice")


def say_where_to_look(demo: Demo, url: str, *, keep: bool) -> None:
    console.print("\n$ longtake jobs list --limit 5", style="bold")
    console.print(demo.longtake("jobs", "list", "--limit", "5"), markup=False, soft_wrap=True, end="")
    if not keep:
        console.print("\n`./dev demo --keep` leaves the server running, so that you can look around.")
        return
    server = demo.server
    console.print(
        f"\nThe server runs on at {url} (process {server.pid if server else '?'}; `kill` it when you have seen enough)."
        f"\nLook around:  LONGTAKE_DATA_DIR={demo.folder} ./dev run longtake jobs list"
        f"\nIts log:      {demo.log}",
        markup=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
