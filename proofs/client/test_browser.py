"""The Chromium that tests of pages use is found, or its absence is said; nothing is skipped."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from proofs.client import browser
from proofs.client.browser import NAMES, VARIABLE, NoBrowser, find_chromium

if TYPE_CHECKING:
    from pathlib import Path

INSTALLER = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
    *update*) touch {updated} ;;
    *) [ -e {updated} ] || exit 100; printf '#!/bin/sh\\n' > {folder}/chromium; chmod +x {folder}/chromium ;;
esac
"""


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH beside what a shell needs; there is no browser in it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("touch", "chmod"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(browser, "LOCK", tmp_path / "lock")
    return tools


def test_the_variable_comes_first_and_must_name_a_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(folder / "chromium")
    named = program(folder / "mine")
    monkeypatch.setenv(VARIABLE, named)
    assert find_chromium("/nowhere") == named
    monkeypatch.setenv(VARIABLE, "/no/such/program")
    with pytest.raises(NoBrowser, match=VARIABLE):
        find_chromium("/nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_a_browser_of_the_system_comes_before_playwrights_own(folder: Path, name: str) -> None:
    own = program(folder / "own")
    assert find_chromium(own) == own
    found = program(folder / name)
    assert find_chromium(own) == found


def test_root_installs_one_after_asking_for_the_list_of_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    log = folder / "log"
    program(folder / "apt-get", INSTALLER.format(log=log, updated=folder / "updated", folder=folder))
    assert find_chromium("/nowhere") == str(folder / "chromium")
    lines = log.read_text().splitlines()
    assert [line.split()[2] for line in lines] == ["install", "update", "install"]
    assert all("DPkg::Lock::Timeout=300" in line for line in lines)


def test_others_are_told_what_to_type(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    program(folder / "apt-get", "#!/bin/sh\nexit 1\n")
    with pytest.raises(NoBrowser, match="apt-get install chromium"):
        find_chromium("/nowhere")
