"""docs/coverage.md names only what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "coverage.md").read_text()


def test_every_test_it_names_exists() -> None:
    named = re.findall(r"`((?:tests|proofs)/[\w/.]+)`", DOCUMENT)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_place_it_names_exists() -> None:
    layers = "|".join(path.name for path in (ROOT / "src" / "longtake").iterdir() if path.is_dir())
    places = re.findall(rf"`((?:{layers})/[\w/.*]*)`", DOCUMENT)
    assert len(places) > 10
    assert [place for place in places if not list((ROOT / "src" / "longtake").glob(place.rstrip("/")))] == []


def test_every_fault_that_has_a_test_is_listed() -> None:
    tests = "".join(path.read_text() for tier in ("tests", "proofs") for path in (ROOT / tier).rglob("test_*.py"))
    proved = {f"F{int(number)}" for number in re.findall(r"def test_f(\d+)_", tests)}
    assert {fault for fault in proved if not re.search(rf"\b{fault}\b", DOCUMENT)} == set()


def test_every_place_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    package = ROOT / "src" / "longtake"
    groups = ("capabilities", "capabilities/generation", "services", "adapters")
    homes = [package, *(package / one for one in groups), ROOT, ROOT / "src"]
    places = set(re.findall(r"`([a-z_/]+/|[a-z_]+\.py)`", text)) | set(re.findall(r"[a-z_/]+/[a-z_]+\.py", text))
    assert len(places) > 30
    assert [place for place in sorted(places) if not any((home / place).exists() for home in homes)] == []
