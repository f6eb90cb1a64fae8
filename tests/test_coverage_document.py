"""docs/coverage.md names only what is there."""

from __future__ import annotations

import ast
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


def ids(text: str) -> set[str]:
    """Return all ids in a text; A1–A4 stands for four."""
    found = set(re.findall(r"\b[A-Z]\d+\b", text))
    for kind, first, last in re.findall(r"\b([A-Z])(\d+)–[A-Z](\d+)\b", text):
        found |= {f"{kind}{number}" for number in range(int(first), int(last) + 1)}
    return found


def proved_ids() -> set[str]:
    """Return the ids with which the docstrings of tests begin."""
    found = set[str]()
    for file in (path for tier in ("tests", "proofs") for path in (ROOT / tier).rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                first = re.match(r"((?:[A-Z]\d+(?:, |–)?)+):", ast.get_docstring(node) or "")
                found |= ids(first[1]) if first else set()
    return found


def test_every_id_that_a_test_proves_is_listed() -> None:
    proved = proved_ids()
    assert len(proved) > 80
    assert proved - ids(DOCUMENT) == set()


def test_every_place_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    package = ROOT / "src" / "longtake"
    groups = ("capabilities", "capabilities/generation", "services", "adapters")
    homes = [package, *(package / one for one in groups), ROOT, ROOT / "src"]
    places = set(re.findall(r"`([a-z_/]+/|[a-z_]+\.py)`", text)) | set(re.findall(r"[a-z_/]+/[a-z_]+\.py", text))
    assert len(places) > 30
    assert [place for place in sorted(places) if not any((home / place).exists() for home in homes)] == []
