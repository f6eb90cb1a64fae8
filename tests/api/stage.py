"""The whole API as users meet it: a real server on either database, callers with tokens, and a look at the rows."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from PIL import Image

from longtake.services.accounts.own_tokens import ExpectedClaims, mint
from tests.service.processes import Answer, Place, Server
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.sandbox_process import SandboxProcess

SECRET = "a secret of more than thirty-two characters"
#: An id that nothing has.
NOTHING = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
#: Whatever a request for an image can write.
WRITTEN = (
    "tasks", "messages", "conversations", "credit_transfers", "idempotency_keys", "jobs", "events", "assets",
    "scene_runs", "scenes", "image_jobs",
)  # fmt: skip
MODELS = """
[[model]]
name = "measured"
title = "One of each kind of parameter"
provider = "kie"
remote = "measured"
type = "image"
credits = 4
deadline = 600
prompt_limit = 100
[model.parameters]
weight = { kind = "number", sends = "weight", meaning = "Any number." }
seed = { kind = "whole", sends = "seed", meaning = "Any whole number.", least = 0 }
style = { kind = "text", sends = "style", meaning = "A line.", most = 20 }
seconds = { kind = "choice", sends = "seconds", meaning = "How long.", choices = [5, 10] }
sound = { kind = "yes_no", sends = "sound", meaning = "With sound." }
"""


#: With a key for Gemini, whom nobody reaches: runs can be made, and no image.
FOR_RUNS: dict[str, Any] = {"gemini_api_key": "a-key", "gemini_base_url": "http://127.0.0.1:9"}


def token(user: str = "ada", role: str = "user") -> str:
    """Return a token as whoever knows the secret makes them."""
    now = datetime.now(UTC)
    return mint(SECRET.encode(), ExpectedClaims(), user_id=user, role=role, now=now, lifetime=timedelta(hours=1))


def place_for(folder: Path, database_url: str = "", sandbox: SandboxProcess | None = None, **settings: str) -> Place:
    """Return a place where a server has providers: the sandbox, or nobody at all."""
    models = folder / "models.toml"
    models.write_text(MODELS, encoding="utf-8")
    values = {
        "LONGTAKE_JWT_SECRET": SECRET,
        "LONGTAKE_MODELS_FILE": str(models),
        "LONGTAKE_KIE_API_KEY": sandbox.key if sandbox else "a-key",
        "LONGTAKE_KIE_BASE_URL": sandbox.kie_url if sandbox else "http://127.0.0.1:9",
        "LONGTAKE_ALLOW_ADDRESSES": "127.0.0.1/32",
        # Nobody listens there: it makes providers reachable in principle.
        "LONGTAKE_PUBLIC_URL": "http://127.0.0.1:9",
        "LONGTAKE_REQUESTS_PER_MINUTE": "1000000",
        "LONGTAKE_FAILED_LOGINS_PER_MINUTE": "1000000",
        "LONGTAKE_UNFINISHED_TASKS": "100000",
    }
    if database_url:
        values["LONGTAKE_DATABASE_URL"] = database_url
    return Place(folder, values | {f"LONGTAKE_{name.upper()}": value for name, value in settings.items()})


@dataclass
class Api:
    """A running server with its callers."""

    place: Place
    server: Server
    sandbox: SandboxProcess | None = None

    def ask(
        self,
        method: str,
        path: str,
        content: Any = None,
        *,
        user: str | None = "ada",
        role: str = "user",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; `content` goes as JSON, `body` as it is; without a user nobody asks."""
        sent: dict[str, str] = {}
        if user is not None:
            sent["Authorization"] = f"Bearer {token(user, role)}"
        if content is not None:
            body = json.dumps(content).encode()
        if body is not None:
            sent["Content-Type"] = "application/json"
        return self.server.request(method, path, body, sent | dict(headers or {}))

    def generate(self, content: Mapping[str, Any] | None = None, *, key: str | None = None, **rest: Any) -> Answer:
        """Ask for an image."""
        wanted = {"model": "nano-banana", "prompt": "a red fox"} | dict(content or {})
        headers = dict(rest.pop("headers", {})) | ({} if key is None else {"Idempotency-Key": key})
        return self.ask("POST", "/v1/images/generate", wanted, headers=headers, **rest)

    def grant(self, user: str = "ada", amount: int = 1_000) -> None:
        """Give a user credits."""
        order = {"user_id": user, "amount": amount, "reason": "for tests"}
        assert self.ask("POST", "/v1/admin/credits/grant", order, user="root", role="admin").status == 200

    def conversation(self, user: str = "ada") -> str:
        """Begin a conversation; return its id."""
        return str(self.ask("POST", "/v1/conversations", {"title": "Foxes"}, user=user).json["id"])

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Look with plain SQL, past the server."""
        url = self.place.environment.get("LONGTAKE_DATABASE_URL", "")
        if url:
            with psycopg.connect(url) as connection:
                return connection.execute(statement.encode()).fetchall()
        reader = sqlite3.connect(f"file:{self.place.data / 'longtake.db'}?mode=ro", uri=True)
        try:
            return reader.execute(statement).fetchall()
        finally:
            reader.close()

    def write(self, statement: str) -> None:
        """Write with plain SQL, as an application that shares the database does."""
        url = self.place.environment.get("LONGTAKE_DATABASE_URL", "")
        if url:
            with psycopg.connect(url) as connection:
                connection.execute(statement.encode())
            return
        writer = sqlite3.connect(self.place.data / "longtake.db", timeout=PATIENCE_SECONDS)
        try:
            with writer:
                writer.execute(statement)
        finally:
            writer.close()

    def written(self) -> dict[str, int]:
        """Return how many rows each table has."""
        return {table: self.sql(f"SELECT count(*) FROM {table}")[0][0] for table in WRITTEN}

    def balance(self, user: str = "ada") -> tuple[int, int]:
        """Return what is available, and what is held."""
        found = self.ask("GET", "/v1/credits", user=user).json
        return found["available"], found["held"]


def assert_problem(answer: Answer, status: int, code: str) -> None:
    """Check the form that every problem has."""
    assert (answer.status, answer.json.get("code")) == (status, code), answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert (problem["type"], problem["status"]) == ("about:blank", status)
    assert problem["detail"].endswith(".")
    assert problem["request_id"] == answer.headers["x-request-id"]


def picture() -> bytes:
    """Return a PNG as small as one may be."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "orange").save(file, "PNG")
    return file.getvalue()
