"""What can be proved: the one table that `./dev prove` lists, runs, and takes from for a change.

The order is the order of importance: `.ci/run` takes the proofs that a change touches from the top until its time is
full. `seconds` were measured on two cores (docs/benchmarks.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def _src(*folders: str) -> tuple[str, ...]:
    return tuple(f"src/longtake/{folder}" for folder in folders)


ENGINE = _src("engine/", "db/")
SERVICE = _src("capability.py", "server/", "http/", "settings/")
MEDIA = _src("capabilities/media/", "services/assets/", "adapters/storage/", "adapters/decoder/")
SANDBOX = ("src/longtake_sandbox/",)


@dataclass(frozen=True)
class Proof:
    """One thing that is shown, by which files, and which changes call for it."""

    name: str
    shows: str
    paths: tuple[str, ...]
    seconds: int
    folders: tuple[str, ...]
    #: For tests of the first tier that are repeated at full length.
    thorough: bool = False

    def is_touched_by(self, changed: Iterable[str]) -> bool:
        """Say whether a change of these files calls for this proof."""
        return any(file.startswith((*self.paths, *self.folders)) for file in changed)


def _faults(*names: str) -> tuple[str, ...]:
    return tuple(f"proofs/faults/test_{name}.py" for name in names)


PROOFS = (
    Proof(
        "engine",
        "killed, frozen and stopped workers lose no job and do none twice",
        _faults(
            "worker_killed", "worker_frozen", "worker_stopped", "random_kills", "clocks", "contention", "versions",
            "last_writes", "drain",
        ),
        65, ENGINE,
    ),
    Proof(
        "database",
        "a database that restarts, refuses, loses answers or has a full disk costs nothing but time",
        (*_faults("database_refuses", "database_restarted", "disk_full", "lost_answers"), "proofs/db/"),
        25, (*ENGINE, *_src("http/")),
    ),
    Proof(
        "generation",
        "servers and workers killed at random: every accepted task ends once and is paid once",
        _faults("generation_kills"),
        150,
        (
            *ENGINE,
            *_src("capabilities/generation/", "services/models/", "services/credits/", "services/provider_calls.py"),
            *_src("adapters/providers/"),
        ),
    ),
    Proof(
        "demo", "the demo runs as a newcomer starts it", ("proofs/demo/",), 15,
        ("scripts/", *SANDBOX, *SERVICE),
    ),
    Proof(
        "scenes",
        "runs keep their provider's pace and survive kills",
        (*_faults("scene_pace"), "proofs/scenes/"),
        60, _src("capabilities/scenes/", "engine/"),
    ),
    Proof(
        "catalogue",
        "syncs killed in the middle: every poster comes once, every title is found",
        _faults("catalogue_kills"),
        45, _src("capabilities/catalogue/", "engine/"),
    ),
    Proof("webhooks", "every event is delivered though servers are killed", ("proofs/webhooks/",), 15,
          _src("services/webhooks/", "services/live/", "engine/")),
    Proof("live", "streams survive killed, stopped and crashed servers, and slow readers", ("proofs/live/",), 75,
          _src("services/live/", "http/")),
    Proof("media", "copies, deletions and thumbnails survive kills, and hold on a real S3 server", ("proofs/assets/",),
          10, MEDIA),
    Proof("api", "the HTTP interface keeps its description's promises, whatever is sent", ("proofs/api/",), 85,
          (*_src(*(f"services/{one}/" for one in ("accounts", "vault", "conversations", "migrations"))), *SERVICE)),
    Proof("cli", "commands work through a server, without one, and after signals", ("proofs/service/",), 65,
          _src("cli/", "client/", "terminal/", "server/")),
    Proof("client", "the JavaScript client loses no event, in a real browser with many tabs", ("proofs/client/",), 140,
          ("client/",)),
    Proof(
        "any-order",
        "the state machines of engine, credits and streams hold in any order of steps",
        (
            "tests/engine/test_state_machine.py", "tests/engine/test_write_then_raise.py",
            "tests/credits/test_state_machine.py", "tests/live/test_any_order.py",
        ),
        30, (*ENGINE, *_src("services/credits/", "services/live/")), thorough=True,
    ),
    Proof("chaos", "an hour's worth of trouble in a minute, or for as long as --seconds says", _faults("chaos"), 45,
          ENGINE),
)  # fmt: skip
