"""`./dev` on a fresh machine, and the locked requirements it installs."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ["runtime", "dev", "bench"]
COMMANDS = ["demo", "test", "prove", "lint", "bench", "generate", "lock", "run", "shape", "help"]
# Stands in for Python: answers what ./dev asks, and notes what it was told to install.
FAKE_PYTHON = r"""#!/bin/bash
echo "$*" >>"$CALLS"
case "$*" in
    --version) echo "Python 3.11.0" ;;
    "-m venv --clear "*) mkdir -p "${!#}/bin" && rm -f "${!#}/stamp" && cp "$0" "${!#}/bin/python" ;;
    "-m pip "*) echo "WARNING: of pip" >&2; [ ! -e "$FAIL" ] ;;
esac
"""


def dependencies(*groups: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines: list[str] = list(project["project"]["dependencies"])
    for group in groups:
        for item in project["dependency-groups"][group]:
            lines += project["dependency-groups"][item["include-group"]] if isinstance(item, dict) else [item]
    return [Requirement(line) for line in lines]


def pinned(lock: str) -> dict[str, str]:
    """Every pinned requirement with the text that follows it, up to the next."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    return {re.split(r"[\[=;\s]", block, maxsplit=1)[0]: block for block in blocks}


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_hold_no_address_and_no_path(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted-host|(^|[\s=])/\w", text)
    assert "./dev lock" in text.splitlines()[1]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_has_one_version_and_hashes(lock: str) -> None:
    requirements = pinned(lock)
    assert len(requirements) > 20
    for name, block in requirements.items():
        assert re.match(rf"{name}(\[[\w,-]+\])?==\S+", block), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), name


@pytest.mark.parametrize(("lock", "groups"), [("runtime", []), ("dev", ["dev"]), ("bench", ["bench"])])
def test_locks_hold_all_that_is_asked_for(lock: str, groups: list[str]) -> None:
    requirements = pinned(lock)
    for requirement in dependencies(*groups):
        name = canonicalize_name(requirement.name)
        assert name in requirements, requirement
        version = re.search(r"==([^\s;]+)", requirements[name])
        assert version, requirement
        assert requirement.specifier.contains(version[1], prereleases=True), requirement


def test_what_is_tested_and_measured_is_what_ships() -> None:
    def versions(lock: str) -> dict[str, str]:
        return {name: block.split()[0] for name, block in pinned(lock).items()}

    for lock in ("dev", "bench"):
        assert versions("runtime").items() <= versions(lock).items()


def test_hashes_cover_other_machines() -> None:
    # One file for this machine only would be one hash; orjson has files for every platform.
    assert pinned("runtime")["orjson"].count("--hash=") > 20


def test_every_dependency_says_what_it_earns() -> None:
    page = (ROOT / "docs/decisions/0001-dependencies.md").read_text()
    for requirement in dependencies("dev", "bench"):
        assert f"`{requirement.name}`" in page, requirement


def test_help_lists_each_command() -> None:
    shown = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    cases = (ROOT / "dev").read_text().partition("case $command in")[2]
    handled = re.findall(r"^    (\w+)(?: \|[^)]*)?\)", cases, flags=re.MULTILINE)
    assert sorted(handled) == sorted(COMMANDS)
    for command in COMMANDS:
        assert re.search(rf"^  {command}\b", shown, flags=re.MULTILINE), command


class Machine:
    """A copy of the project on a machine where only a shell and a pretended Python exist."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "a project's folder"
        (self.project / "requirements").mkdir(parents=True)
        shutil.copy(ROOT / "dev", self.project)
        (self.project / "pyproject.toml").write_text("[project]\n")
        (self.project / "requirements/dev.txt").write_text("one==1\n")
        self.programs = folder / "programs"
        self.programs.mkdir()
        for program in ("bash", "cat", "cksum", "cp", "dirname", "mkdir", "rm", "sleep"):
            (self.programs / program).symlink_to(shutil.which(program) or program)
        self.calls = folder / "calls"
        self.fail = folder / "fail"

    def add_python(self, name: str = "python3", text: str = FAKE_PYTHON) -> Path:
        python = self.programs / name
        python.write_text(text)
        python.chmod(0o755)
        return python

    def dev(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        environment = {"PATH": str(self.programs), "CALLS": str(self.calls), "FAIL": str(self.fail), **variables}
        return subprocess.run(
            [self.project / "dev", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def installs(self) -> list[str]:
        return [line for line in self.calls.read_text().splitlines() if line.startswith(("-m pip", "-m venv"))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_run_installs_what_is_locked_and_the_second_starts_at_once(machine: Machine) -> None:
    machine.add_python()
    first = machine.dev("run", "bash", "-c", "echo ran")
    assert (first.returncode, first.stdout) == (0, "ran\n"), first.stderr
    venv, locked, project = machine.installs()
    assert "venv --clear .venv" in venv
    assert "--no-deps --require-hashes -r requirements/dev.txt" in locked
    assert "--no-deps --no-build-isolation -e ." in project
    lines = first.stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["Making", "Installing", "Installing", "Ready."], "a line a step"
    second = machine.dev("run", "bash", "-c", "echo ran")
    assert (second.stdout, second.stderr, machine.installs()) == ("ran\n", "", [])


@pytest.mark.parametrize("changed", ["requirements/dev.txt", "pyproject.toml"])
def test_a_changed_lock_or_project_is_installed(machine: Machine, changed: str) -> None:
    machine.add_python()
    machine.dev("run", "true")
    (machine.project / changed).write_text("changed\n")
    machine.dev("run", "bash", "-c", "true")
    assert len(machine.installs()) == 2, "the environment is kept, its contents are brought up to date"


def test_an_interrupted_install_is_begun_again(machine: Machine) -> None:
    machine.add_python()
    machine.fail.touch()
    failed = machine.dev("run", "bash", "-c", "echo ran")
    assert failed.returncode != 0
    assert "WARNING: of pip" in failed.stderr, "when it fails, pip's own words are shown"
    machine.fail.unlink()
    assert machine.dev("run", "bash", "-c", "echo ran").stdout == "ran\n"
    assert len(machine.installs()) == 3
    assert not (machine.project / ".venv.lock").exists()


def test_an_interrupted_update_is_not_taken_for_what_was_there_before(machine: Machine) -> None:
    machine.add_python()
    machine.dev("run", "bash", "-c", "true")
    lock = machine.project / "requirements/dev.txt"
    before = lock.read_text()
    lock.write_text("two==2\n")
    machine.fail.touch()
    machine.dev("run", "bash", "-c", "true")
    machine.fail.unlink()
    lock.write_text(before)
    machine.dev("run", "bash", "-c", "true")
    assert len(machine.installs()) == 3


def test_a_lock_of_a_dead_process_is_taken_over(machine: Machine) -> None:
    machine.add_python()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (machine.project / ".venv.lock").mkdir()
    (machine.project / ".venv.lock/pid").write_text(str(ended.pid))
    assert machine.dev("run", "bash", "-c", "echo ran").stdout == "ran\n"


def test_an_environment_whose_interpreter_is_gone_is_made_anew(machine: Machine) -> None:
    machine.add_python()
    machine.dev("run", "bash", "-c", "true")
    (machine.project / ".venv/bin/python").unlink()
    assert machine.dev("run", "bash", "-c", "echo ran").stdout == "ran\n"
    assert len(machine.installs()) == 3


def test_without_a_new_enough_python_it_says_so(machine: Machine) -> None:
    machine.add_python("python3", "#!/bin/bash\nexit 1\n")
    refused = machine.dev("test")
    assert refused.returncode == 2
    assert "needs Python 3.11 or newer" in refused.stderr
    assert not (machine.project / ".venv").exists()


def test_an_older_python_is_passed_over(machine: Machine) -> None:
    machine.add_python("python3.14", "#!/bin/bash\nexit 1\n")
    machine.add_python("python3.11")
    assert machine.dev("run", "bash", "-c", "echo ran").stdout == "ran\n"


def test_python_can_be_named(machine: Machine) -> None:
    python = machine.add_python("elsewhere")
    assert machine.dev("run", "bash", "-c", "echo ran", PYTHON=str(python)).stdout == "ran\n"
    (machine.project / ".venv/stamp").unlink()
    refused = machine.dev("run", "true", PYTHON="/nowhere/python")
    assert refused.returncode == 2
    assert "PYTHON=/nowhere/python" in refused.stderr


def test_an_unknown_command_is_named(machine: Machine) -> None:
    refused = machine.dev("tset")
    assert refused.returncode == 2
    assert "there is no command 'tset'" in refused.stderr
    assert "usage:" in refused.stderr


def test_lint_shows_all_failures(machine: Machine) -> None:
    machine.add_python()
    machine.dev("run", "bash", "-c", "true")
    for program, status in {"ruff": 1, "mypy": 0, "lint-imports": 1}.items():
        machine.add_python(program, f'#!/bin/bash\necho "{program} $1"\nexit {status}\n')
    result = machine.dev("lint")
    assert result.returncode == 1
    assert result.stdout.splitlines() == ["ruff check", "ruff format", "mypy ", "lint-imports "]
    assert "Failed: ruff check; ruff format; lint-imports;" in result.stderr


def test_the_scripts_can_be_run() -> None:
    assert os.access(ROOT / "dev", os.X_OK)
    assert os.access(ROOT / ".ci/run", os.X_OK)
    script = (ROOT / ".ci/run").read_text()
    assert "./dev lint\n./dev test\n./dev prove --changed" in script
