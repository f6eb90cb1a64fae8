"""`./dev prove`: run proofs one after another, on both databases, and report what was shown."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from proofs.table import PROOFS, Proof

ROOT = Path(__file__).resolve().parent.parent
NOTHING_COLLECTED = 5
SLOWEST = 10


@dataclass
class Shown:
    """What one proof showed, and how long it took."""

    proof: Proof
    passed: bool
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    seeds: list[str] = field(default_factory=list)
    durations: list[tuple[float, str]] = field(default_factory=list)


def main() -> int:
    """Run what was asked for; return 1 where a proof failed."""
    options = _options()
    if options.list:
        _list()
        return 0
    chosen = [proof for proof in PROOFS if proof.name in options.what] if options.what else list(PROOFS)
    if options.changed:
        changed = changed_files(options.base or default_base())
        chosen = [proof for proof in chosen if proof.is_touched_by(changed)]
        print(f"{len(changed)} files changed: {', '.join(proof.name for proof in chosen) or 'no proof'}.")
    shown, left_out = _run(chosen, options)
    _report(shown, left_out)
    return 0 if all(one.passed for one in shown) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev prove", description="Prove on both databases, with fsync on.")
    names = [proof.name for proof in PROOFS]
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"one or more of: {', '.join(names)} (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is, and how long each takes")
    parser.add_argument("--seed", type=int, help="repeat what chance decided in an earlier run")
    parser.add_argument("--seconds", type=float, help="how long generation and chaos go on, on each database")
    parser.add_argument("-k", metavar="EXPRESSION", help="only tests that match, as for pytest")
    parser.add_argument("--changed", action="store_true", help="only what a change since --base calls for")
    parser.add_argument("--base", help="a commit (default: the newest one older than four hours)")
    parser.add_argument("--minutes", type=float, help="begin no proof that would not end within so many minutes")
    options = parser.parse_args()
    if unknown := sorted(set(options.what) - set(names)):
        parser.error(f"there is no proof {', '.join(unknown)}; there are {', '.join(names)}")
    return options


def _list() -> None:
    for proof in PROOFS:
        print(f"{proof.name:11}{_minutes(proof.seconds):>9}  {proof.shows}")
    print(f"{'all':11}{_minutes(sum(proof.seconds for proof in PROOFS)):>9}")


def changed_files(base: str) -> list[str]:
    """Return what differs from a commit, uncommitted work included."""
    return _git("diff", "--name-only", base).splitlines() + _git("ls-files", "-o", "--exclude-standard").splitlines()


def default_base() -> str:
    """Return the newest commit older than four hours, else the first one."""
    found = _git("rev-list", "-1", "--before=4 hours ago", "HEAD")
    return found or _git("rev-list", "--max-parents=0", "HEAD").splitlines()[-1]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _run(chosen: list[Proof], options: argparse.Namespace) -> tuple[list[Shown], list[Proof]]:
    shown: list[Shown] = []
    left_out: list[Proof] = []
    began = time.monotonic()
    for number, proof in enumerate(chosen, 1):
        spent = time.monotonic() - began
        if options.minutes is not None and spent + proof.seconds > options.minutes * 60:
            left_out.append(proof)
            continue
        print(f"\n[{number}/{len(chosen)}] {proof.name}: {proof.shows} (about {_minutes(proof.seconds)})", flush=True)
        shown.append(_prove(proof, options))
    return shown, left_out


def _prove(proof: Proof, options: argparse.Namespace) -> Shown:
    with tempfile.TemporaryDirectory(prefix="longtake-prove-") as folder:
        results = Path(folder) / "results.xml"
        # As many at once as there are cores: most proofs start processes of their own.
        arguments = ["-n", str(min(os.cpu_count() or 1, 8)), "--dist", "worksteal", f"--junitxml={results}"]
        if not proof.thorough:
            arguments += [f"--{name}={value}" for name in ("seed", "seconds") if (value := getattr(options, name))]
        arguments += ["-k", options.k] if options.k else []
        environment = os.environ | ({"LONGTAKE_THOROUGH": "1"} if proof.thorough else {})
        began = time.monotonic()
        status = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments, *proof.paths], cwd=ROOT, env=environment, check=False
        ).returncode
        seconds = time.monotonic() - began
        passed = status == 0 or (status == NOTHING_COLLECTED and bool(options.k))
        return _read(Shown(proof, passed, seconds), results)


def _read(shown: Shown, results: Path) -> Shown:
    """Add what pytest wrote about each test."""
    if not results.exists():
        return shown
    for case in ET.parse(results).iter("testcase"):  # noqa: S314 - as above
        outcome = next((tag for tag in ("failure", "error", "skipped") if case.find(tag) is not None), "passed")
        shown.counts[outcome] = shown.counts.get(outcome, 0) + 1
        shown.durations.append((float(case.get("time", "0")), case.get("name", "")))
        shown.seeds += [one.get("value", "") for one in case.iter("property") if one.get("name") == "seed"]
    return shown


def _report(shown: list[Shown], left_out: list[Proof]) -> None:
    print("\nWhat was shown")
    for one in shown:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(one.counts.items())) or "nothing ran"
        seeds = f"; seed {', '.join(sorted(set(one.seeds)))}" if one.seeds else ""
        mark = "ok " if one.passed else "BAD"
        print(f"  {mark} {one.proof.name:11}{_minutes(one.seconds):>9}  {one.proof.shows} ({counts}{seeds})")
    slowest = sorted((duration for one in shown for duration in one.durations), reverse=True)[:SLOWEST]
    if slowest:
        print("Slowest")
    for seconds, name in slowest:
        print(f"  {seconds:7.1f} s  {name}")
    for proof in left_out:
        print(f"  left out for lack of time: {proof.name} (about {_minutes(proof.seconds)}): ./dev prove {proof.name}")
    passed = sum(one.counts.get("passed", 0) for one in shown)
    failed = sum(one.counts.get("failure", 0) + one.counts.get("error", 0) for one in shown)
    print(f"In all {_minutes(sum(one.seconds for one in shown))}.\n{passed} passed, {failed} failed")


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


if __name__ == "__main__":
    sys.exit(main())
