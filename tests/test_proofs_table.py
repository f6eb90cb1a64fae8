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
    without = {"errors", "net", "longtake.egg-info", "__pycache__"}
    folders = [f"src/longtake/{one.name}/x.py" for one in (ROOT / "src/longtake").iterdir() if one.is_dir()]
    missed = [one for one in folders if not any(proof.is_touched_by([one]) for proof in PROOFS)]
    assert {one.split("/")[2] for one in missed} <= without


def test_a_change_calls_for_what_it_touches_alone() -> None:
    called = {proof.name for proof in PROOFS if proof.is_touched_by(["src/longtake/webhooks/routes.py"])}
    assert called == {"webhooks"}
    assert not any(proof.is_touched_by(["docs/cli.md"]) for proof in PROOFS)
