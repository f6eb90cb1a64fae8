"""The table of proofs names every proof once, and calls for it where its subject changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from proofs.table import PROOFS, Proof

ROOT = Path(__file__).parent.parent


def test_every_file_of_proofs_belongs_to_one_proof() -> None:
    files = [str(file.relative_to(ROOT)) for file in (ROOT / "proofs").rglob("test_*.py")]
    homes = Counter(file for file in files for proof in PROOFS if file.startswith(proof.paths))
    assert homes == Counter(files)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_a_proof_names_only_what_exists(proof: Proof) -> None:
    assert [path for path in (*proof.paths, *proof.folders) if not (ROOT / path).exists()] == []


def test_every_folder_of_the_source_calls_for_a_proof() -> None:
    # Adapters to the outside world and texts are shown by the tests.
    without = {"src/longtake/adapters/net"}
    package = ROOT / "src/longtake"
    grouped = {"adapters", "capabilities", "services"}
    folders = {file.parent for file in package.glob("*/*.py") if file.parent.name not in grouped}
    folders |= {file.parent for group in grouped for file in package.glob(f"{group}/*/*.py")}
    names = {str(folder.relative_to(ROOT)) for folder in folders}
    assert {one for one in names if not any(proof.is_touched_by([f"{one}/x.py"]) for proof in PROOFS)} <= without


def test_a_change_calls_for_what_it_touches_alone() -> None:
    called = {proof.name for proof in PROOFS if proof.is_touched_by(["src/longtake/services/webhooks/routes.py"])}
    assert called == {"webhooks"}
    assert not any(proof.is_touched_by(["docs/cli.md"]) for proof in PROOFS)
