"""This machine's own secret: made once, for its owner alone, and the same for all who start at once."""

from __future__ import annotations

import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from longtake.services.vault.errors import SecretFileUnusable
from longtake.services.vault.root_secret import RootSecret
from longtake.settings import Settings
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

DERIVE = (
    "import sys, time; from pathlib import Path; from longtake.services.vault.root_secret import RootSecret;"
    "root = RootSecret('', Path(sys.argv[1])); print('ready', flush=True); sys.stdin.readline();"
    "print(root.derive('tokens').hex())"
)


def root(folder: Path, configured: str = "") -> RootSecret:
    return RootSecret.of(Settings.model_validate({"data_dir": folder, "secret_key": configured}))


def test_it_is_made_when_first_needed_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    first = root(folder)
    assert not first.exists()
    assert not folder.exists()
    key = first.derive("tokens")
    assert len(key) == 32
    assert first.exists()
    assert root(folder).derive("tokens") == key
    assert [file.name for file in folder.iterdir()] == ["secret.key"]


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    root(tmp_path).derive("tokens")
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600


def test_two_machines_have_two_secrets_unless_one_is_configured(tmp_path: Path) -> None:
    assert root(tmp_path / "one").derive("tokens") != root(tmp_path / "two").derive("tokens")
    shared = "a secret that all the machines share"
    assert root(tmp_path / "three", shared).derive("tokens") == root(tmp_path / "four", shared).derive("tokens")
    assert not (tmp_path / "three").exists()


def test_the_content_of_the_file_can_be_given_to_another_machine_as_the_setting(tmp_path: Path) -> None:
    key = root(tmp_path / "one").derive("vault")
    content = (tmp_path / "one" / "secret.key").read_text()
    assert root(tmp_path / "two", content).derive("vault") == key


def test_each_purpose_has_a_key_of_its_own(tmp_path: Path) -> None:
    secret = root(tmp_path)
    keys = {secret.derive(purpose) for purpose in ("tokens", "links", "vault", "", "tokens ")}
    assert len(keys) == 5


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o644])
def test_a_file_that_others_can_reach_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    root(tmp_path).derive("tokens")
    file = tmp_path / "secret.key"
    content = file.read_text()
    file.chmod(mode)
    with pytest.raises(SecretFileUnusable) as refused:
        root(tmp_path).derive("tokens")
    assert f"{mode:o}" in refused.value.message
    assert f"chmod 600 {file}" in refused.value.hint
    assert content.strip() not in refused.value.message + refused.value.hint
    assert file.read_text() == content


@pytest.mark.parametrize("content", ["", "\n", "short", " " * 100])
def test_a_damaged_file_is_refused_and_not_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "secret.key"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(SecretFileUnusable, match="too short"):
        root(tmp_path).derive("tokens")
    assert file.read_text() == content


def test_a_folder_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretFileUnusable, match="cannot be used") as refused:
        root(tmp_path / "file").derive("tokens")
    assert "LONGTAKE_SECRET_KEY" in refused.value.hint


def test_processes_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DERIVE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        # All are loaded and wait; now all of them at once.
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        keys = {process.communicate(timeout=PATIENCE_SECONDS)[0] for process in processes}
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64
    assert [file.name for file in folder.iterdir()] == ["secret.key"]


def test_whoever_loses_the_race_takes_the_winners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file appears after the look and before the link: exactly what two starts at once can do."""
    winner = root(tmp_path)
    expected = winner.derive("tokens")
    from pathlib import Path as AnyPath

    from longtake.services.vault.root_secret import read_or_make

    looked: list[bool] = []
    exists = AnyPath.exists

    def not_yet(path: Path) -> bool:
        if path.name == "secret.key" and not looked:
            looked.append(True)
            return False
        return exists(path)

    monkeypatch.setattr(AnyPath, "exists", not_yet)
    secret = read_or_make(tmp_path / "secret.key")
    assert looked
    assert root(tmp_path, secret).derive("tokens") == expected
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]
