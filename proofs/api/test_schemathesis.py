"""What /openapi.json promises, held against a real server by a program that tries everything it can think of.

No answer is a 5xx, every status is one the operation lists, every body fits its schema and content type, unknown
methods are 405, what is not in the schema is refused, and nothing is shown without a token. The choice of requests is
the same each time. `default` (any other problem) is taken out first, or every status would be as good as listed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.stage import Api, picture, token

if TYPE_CHECKING:
    from pathlib import Path

#: A schema-valid request may still be refused: a model of that name has to exist.
NOT_MEANT = "positive_data_acceptance"


def run(api: Api, folder: Path, *arguments: str, credential: str | None, known: dict[str, str]) -> str:
    """Try all operations; fail with the report of what went wrong."""
    document: dict[str, Any] = api.ask("GET", "/openapi.json", user=None).json
    for operations in document["paths"].values():
        for operation in operations.values():
            del operation["responses"]["default"]
    file = folder / "openapi.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    choices = [f'"{name}" = "{value}"' for name, value in known.items()]
    (folder / "schemathesis.toml").write_text("\n".join(["[parameters]", *choices]), encoding="utf-8")
    given = [] if credential is None else ["--header", f"Authorization: Bearer {credential}"]
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", api.server.url, "--no-color",
            "--generation-deterministic", "--request-timeout=10", f"--exclude-checks={NOT_MEANT}", *given, *arguments,
        ],
        cwd=folder, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # Only a line feed ends a line: what was sent may hold other characters that Python takes for one.
    lines = [json.loads(line) for line in api.server.log.read_text().split("\n") if line]
    assert [line for line in lines if line["level"] == "error"] == []
    return done.stdout


def fixed(api: Api) -> dict[str, str]:
    """What chance would not find, and a wait that would only cost time."""
    upload = api.ask("POST", "/v1/references", body=picture(), headers={"Content-Type": "image/png"})
    assert upload.status == 201, upload.body
    return {"path.asset_id": upload.json["id"], "header.prefer": "respond-async"}


#: Tried in two parts, so that each has its time.
CATALOGUE = "^/(v1/catalogue|posters)/"


@pytest.mark.slow
@pytest.mark.parametrize("part", ["include", "exclude"])
def test_an_administrator_meets_only_what_is_described(either_api: Api, tmp_path: Path, part: str) -> None:
    either_api.grant("ada", 1_000_000)
    known = fixed(either_api)
    chosen = ("--max-examples=5", f"--{part}-path-regex={CATALOGUE}")
    report = run(either_api, tmp_path, *chosen, credential=token("ada", "admin"), known=known)
    paths = either_api.ask("GET", "/openapi.json").json["paths"]
    meant = [one for path, one in paths.items() if bool(re.match(CATALOGUE, path)) == (part == "include")]
    assert f"Tested: {sum(len(one) for one in meant)}" in report


@pytest.mark.slow
def test_a_stranger_meets_only_what_is_described(still_api: Api, tmp_path: Path) -> None:
    known = fixed(still_api)
    before = still_api.written()
    run(still_api, tmp_path, "--max-examples=1", "--phases=coverage", credential=None, known=known)
    assert still_api.written() == before
