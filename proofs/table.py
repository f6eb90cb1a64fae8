"""What can be proved: the one table that `./dev prove` lists, runs, and takes from for a change.

The order is the order of importance: `.ci/run` takes the proofs that a change touches from the top until its time is
full. `seconds` were measured on two cores (docs/benchmarks.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ENGINE = ("src/longtake/engine/", "src/longtake/db/")
SERVICE = ("src/longtake/app/", "src/longtake/web/", "src/longtake/operator/", "src/longtake/settings/")
MEDIA = ("src/longtake/assets/", "src/longtake/asset_registry/", "src/longtake/storage/", "src/longtake/frames/")


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
            "last_writes", "working_off",
        ),
        90, ENGINE,
    ),
    Proof(
        "database",
        "a database that restarts, refuses, loses answers or has a full disk costs nothing but time",
        (*_faults("database_refuses", "database_restarted", "disk_full", "lost_answers"), "proofs/db/"),
        60, (*ENGINE, "src/longtake/web/"),
    ),
    Proof(
        "generation",
        "servers and workers killed at random: every accepted task ends once and is paid once",
        _faults("generation_kills"),
        190, (*ENGINE, "src/longtake/generation/", "src/longtake/credits/", "src/longtake/providers/"),
    ),
    Proof(
        "demo", "the demo runs as a newcomer starts it", ("proofs/demo/",), 25,
        ("scripts/", "src/longtake/sandbox/", *SERVICE),
    ),
    Proof(
        "scenes",
        "runs keep their provider's pace and survive kills",
        (*_faults("scene_pace"), "proofs/scenes/"),
        60, ("src/longtake/scenes/", "src/longtake/engine/"),
    ),
    Proof(
        "catalogue",
        "syncs killed in the middle: every poster comes once, every title is found",
        _faults("catalogue_kills"),
        75, ("src/longtake/catalogue/", "src/longtake/engine/"),
    ),
    Proof("webhooks", "every event is delivered though servers are killed", ("proofs/webhooks/",), 60,
          ("src/longtake/webhooks/", "src/longtake/live/", "src/longtake/engine/")),
    Proof("live", "streams survive killed, stopped and crashed servers, and slow readers", ("proofs/live/",), 90,
          ("src/longtake/live/", "src/longtake/web/")),
    Proof("media", "copies, deletions and thumbnails survive kills, and hold on a real S3 server", ("proofs/assets/",),
          60, MEDIA),
    Proof("api", "the HTTP interface keeps its description's promises, whatever is sent", ("proofs/api/",), 180,
          ("src/longtake/accounts/", "src/longtake/vault/", "src/longtake/conversations/",
           "src/longtake/idempotency.py", *SERVICE)),
    Proof("cli", "commands work through a server, without one, and after signals", ("proofs/service/",), 240,
          ("src/longtake/cli/", "src/longtake/client/", "src/longtake/app/")),
    Proof("client", "the JavaScript client loses no event, in a real browser with many tabs", ("proofs/client/",), 320,
          ("client/",)),
    Proof(
        "any-order",
        "the state machines of engine, credits and streams hold in any order of steps",
        (
            "tests/engine/test_state_machine.py", "tests/engine/test_write_then_raise.py",
            "tests/credits/test_state_machine.py", "tests/live/test_any_order.py",
        ),
        90, (*ENGINE, "src/longtake/credits/", "src/longtake/live/"), thorough=True,
    ),
    Proof("chaos", "an hour's worth of trouble in a minute, or for as long as --seconds says", _faults("chaos"), 100,
          ENGINE),
)  # fmt: skip
