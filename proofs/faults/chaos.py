"""Chaos: workers killed, frozen and stopped, and PostgreSQL restarted, while work comes in."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from longtake import Lane
from proofs.faults.holding import Evidence
from proofs.faults.runs import Sleep, crowd, runs, starts_too_close, without_zombies

if TYPE_CHECKING:
    import random

    from proofs.faults.lab import Child, Lab
    from proofs.faults.runs import Run
    from proofs.faults.servers import StoppableServer

LEASE_SECONDS = 2.0
HEARTBEAT_SECONDS = 0.5
NARROW = Lane("narrow", max_running=3)
SPACED = Lane("spaced", spacing=0.25)
SPACING = 0.25
#: So many waiting jobs are load enough.
BACKLOG = 3_000
DRAIN_SECONDS = 90.0
#: A handler that begins so soon after its process was woken had its permit before it fell asleep.
WAKING_SECONDS = 0.05
FOLLOW_UP = [{"kind": "task", "args": {"seconds": 0.01}}]


class Chaos:
    """One database, its workers, and what was done to them."""

    def __init__(self, lab: Lab, server: StoppableServer | None, workers: int, dice: random.Random) -> None:
        self.lab = lab
        self.server = server
        self.workers = workers
        self.dice = dice
        self.submitted: list[str] = []
        self.faults: Counter[str] = Counter()
        self.awake: list[Child] = []
        self.asleep: list[tuple[float, Child, float]] = []
        self.sleeps: list[Sleep] = []
        self._diary = Evidence(lab.folder)
        self._terminal = sys.stdout.isatty()

    def run(self, seconds: float) -> None:
        """Submit work and do harm until the time is over."""
        began_at = time.monotonic()
        next_fault, next_line = began_at + 1.0, began_at
        while (now := time.monotonic()) - began_at < seconds:
            self._fill_up()
            self._wake(now)
            self._submit()
            if now >= next_fault:
                self._harm()
                next_fault = time.monotonic() + self.dice.uniform(0.2, 1.5)
            if now >= next_line:
                self._show(now - began_at)
                next_line = now + 2.0
            time.sleep(0.1)

    def drain(self) -> int:
        """Wake everybody, do no more harm, and return how many jobs do not end."""
        self._wake(float("inf"))
        self._fill_up()
        give_up_at = time.monotonic() + DRAIN_SECONDS
        began_at = time.monotonic()
        while (left := self.lab.live()) and time.monotonic() < give_up_at:
            self._show(time.monotonic() - began_at, f"draining, {left} left")
            time.sleep(2.0)
        print()
        return left

    # -- work ----------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        # A frozen owner of a SQLite file may hold its lock.
        if self.lab.live() > BACKLOG or (self.lab.is_sqlite and self.asleep):
            return
        enqueue, dice = self.lab.enqueue, self.dice
        self.submitted += enqueue(dice.randint(5, 60), seconds=dice.choice([0.0, 0.01, 0.2]))
        self.submitted += enqueue(dice.randint(1, 15), snoozes=dice.randint(1, 4))
        self.submitted += enqueue(dice.randint(1, 15), retries=dice.randint(1, 3))
        self.submitted += enqueue(dice.randint(1, 15), then=FOLLOW_UP)
        if self._waiting_in("narrow") < 20:
            self.submitted += enqueue(5, kind="narrow", lane="narrow", seconds=dice.uniform(0.02, 0.4))
        if self._waiting_in("spaced") < 5:
            self.submitted += enqueue(3, kind="spaced", lane="spaced", seconds=0.01)

    def _waiting_in(self, lane: str) -> int:
        return int(self.lab.sql("SELECT count(*) FROM jobs WHERE lane = ?", (lane,))[0][0])

    # -- harm ----------------------------------------------------------------------------------------------------

    def _harm(self) -> None:
        choices = [self._kill, self._freeze, self._freeze, self._stop]
        if self.server is not None:
            choices.append(self._restart_server)
        self.dice.choice(choices)()

    def _kill(self) -> None:
        if self.awake:
            self.faults["kill -9"] += 1
            child = self.awake.pop(self.dice.randrange(len(self.awake)))
            child.kill()
            self._diary.write("killed", child=child.id)

    def _freeze(self) -> None:
        if not self.awake:
            return
        child = self.awake.pop(self.dice.randrange(len(self.awake)))
        self.faults["SIGSTOP"] += 1
        child.freeze()
        self._diary.write("froze", child=child.id)
        now = time.monotonic()
        length = self.dice.choice([self.dice.uniform(0.05, 0.3), self.dice.uniform(1.2, 2.0) * LEASE_SECONDS])
        self.asleep.append((now + length, child, now))

    def _wake(self, now: float) -> None:
        for entry in [entry for entry in self.asleep if entry[0] <= now]:
            self.asleep.remove(entry)
            _until, child, slept_at = entry
            self.sleeps.append(Sleep(child.id, slept_at, time.monotonic()))
            self._diary.write("woke", child=child.id)
            child.thaw()
            self.awake.append(child)

    def _stop(self) -> None:
        if self.awake:
            self.faults["SIGTERM"] += 1
            child = self.awake.pop(self.dice.randrange(len(self.awake)))
            child.terminate()
            child.gone()

    def _restart_server(self) -> None:
        if self.server is not None:
            self.faults["server restarts"] += 1
            self.server.halt(self.dice.choice(["immediate", "fast"]))
            # Sometimes for longer than a call to the database is patient.
            time.sleep(self.dice.choice([0.0, 0.0, 0.5, 9.0]))
            self.server.start()

    def _fill_up(self) -> None:
        self.awake = [child for child in self.awake if child.alive]
        # SQLite's file has one owner: a frozen one keeps it.
        while len(self.awake) + len(self.asleep) < self.workers:
            self.awake.append(
                self.lab.start(
                    kinds=("task", "narrow", "spaced"),
                    lanes=(NARROW, SPACED),
                    lease_seconds=LEASE_SECONDS,
                    heartbeat_seconds=HEARTBEAT_SECONDS,
                    stop_grace_seconds=1.0,
                )
            )

    # -- what became of it ---------------------------------------------------------------------------------------

    def _show(self, seconds: float, more: str = "") -> None:
        harm = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        line = f"  {seconds:4.0f} s  {len(self.submitted)} jobs submitted; {harm or 'no harm yet'}"
        line += f"; {more}" if more else ""
        print(f"\r{line}".ljust(110) if self._terminal else line, end="" if self._terminal else "\n", flush=True)

    def report(self, stuck: int) -> bool:
        """Print the invariants; say whether all of them hold."""
        lab = self.lab
        ended = {str(job_id): state for job_id, state in lab.sql("SELECT id, state FROM jobs_ended")}
        live = {str(row[0]) for row in lab.sql("SELECT id FROM jobs")}
        quarantined = set(lab.quarantined())
        lost = [job_id for job_id in self.submitted if job_id not in ended and job_id not in live]
        failed = [job_id for job_id, state in ended.items() if state != "done" and job_id not in quarantined]
        violations = self._lane_violations()
        print(f"  submitted {len(self.submitted)}, ended {len(ended)}, with follow-ups")
        print(f"  quarantined {len(quarantined)}: killed three times by us, the last time alone")
        counts = {
            "lost": len(lost),
            "doubled effects": self._doubled(ended),
            "lane violations": len(violations),
            "stuck": stuck,
            "failed without reason": len(failed),
        }
        for name, count in counts.items():
            print(f"  {'ok ' if count == 0 else 'BAD'} {name} {count}")
        for text in [*violations[:10], *lost[:10], *failed[:10]]:
            print(f"      {text}")
        return not any(counts.values())

    def _doubled(self, ended: dict[str, str]) -> int:
        """Count effects beyond the first, effects without an end, and follow-ups beyond the first."""
        lab = self.lab
        refused = lab.sql("SELECT job_id FROM job_attempts WHERE CAST(error AS text) LIKE ?", ("%SETTLE_FAILED%",))
        effects = {row[0] for row in lab.sql("SELECT job_id FROM effects")}
        done = {job_id for job_id, state in ended.items() if state == "done"}
        twice = "SELECT subject FROM jobs_ended WHERE subject IS NOT NULL GROUP BY subject HAVING count(*) > 1"
        return len(refused) + len(effects ^ done) + len(lab.sql(twice))

    def _lane_violations(self) -> list[str]:
        everything = runs(self.lab.evidence(), self.lab.deaths())
        narrow = without_zombies((run for run in everything if run.lane == "narrow"), self.sleeps)
        spaced = [run for run in everything if run.lane == "spaced" and not self._just_woken(run)]
        most, limit = crowd(narrow), NARROW.max_running or 0
        found = [f"narrow: {len(most)} at once, {limit} allowed: {most}"] if len(most) > limit else []
        for first, second in starts_too_close(spaced, SPACING):
            found.append(f"spaced: {second.began_at - first.began_at:.4f} s apart: {first}, {second}")
        print(f"  narrow lane: {len(narrow)} runs, {len(most)} at once; spaced lane: {len(spaced)} starts")
        return found

    def _just_woken(self, run: Run) -> bool:
        woken = [sleep.ended_at for sleep in self.sleeps if sleep.process == run.process]
        return any(0 <= run.began_at - at < WAKING_SECONDS for at in woken)
