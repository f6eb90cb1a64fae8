"""A sandbox as a process of its own, for every test that talks to the outside world.

with running_sandbox(seconds={"image": 0.2}) as sandbox:
    sandbox.faults("status", status=503, route="query", times=2)
    …  # talk to sandbox.kie_url with sandbox.key
    assert [call["status"] for call in sandbox.calls(route="query")] == [503, 503, 200]
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEY = "sandbox-key"
WEBHOOK_KEY = "sandbox-webhook-key"
#: Quick, and always the same: tests that want more say so.
SECONDS = {"image": 0.2, "video": 0.4}
MATCHES = {"provider", "route", "model", "task", "prompt_contains", "path_contains", "query_contains"}
RULES = {"times", "probability", "skip"}


@dataclass
class SandboxProcess:
    """A running sandbox."""

    process: subprocess.Popen[str]
    url: str
    key: str = KEY
    webhook_key: str = ""

    @property
    def kie_url(self) -> str:
        """What stands for https://api.kie.ai."""
        return f"{self.url}/kie"

    @property
    def gemini_url(self) -> str:
        """What stands for https://generativelanguage.googleapis.com/v1beta."""
        return f"{self.url}/gemini/v1beta"

    @property
    def tmdb_url(self) -> str:
        """What stands for https://api.themoviedb.org/3."""
        return f"{self.url}/tmdb/3"

    @property
    def tmdb_images_url(self) -> str:
        """What stands for https://image.tmdb.org/t/p."""
        return f"{self.url}/tmdb-images/t/p"

    @property
    def bangumi_url(self) -> str:
        """What stands for https://api.bgm.tv."""
        return f"{self.url}/bangumi"

    @property
    def bangumi_images_url(self) -> str:
        """What stands for https://lain.bgm.tv."""
        return f"{self.url}/bangumi-images"

    def faults(self, kind: str, **choices: Any) -> int:
        """Add a rule: what it matches, how often it counts, and the fault's own fields. Return its number."""
        match = {name: value for name, value in choices.items() if name in MATCHES}
        rule = {name: value for name, value in choices.items() if name in RULES}
        rest = {name: value for name, value in choices.items() if name not in MATCHES | RULES}
        body = {"match": match, "fault": {"kind": kind, **rest}, **rule}
        number: int = self.ask("POST", "/_faults", body)["id"]
        return number

    def applied(self, number: int) -> int:
        """Return how often a rule has been applied."""
        rules = self.ask("GET", "/_faults")["rules"]
        return next(int(rule["applied"]) for rule in rules if rule["id"] == number)

    def clear_faults(self) -> None:
        """Remove all rules."""
        self.ask("DELETE", "/_faults")

    def calls(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the calls so far, oldest first: filters are path and query (parts of them), task, route, since …"""
        calls: list[dict[str, Any]] = self.ask("GET", "/_calls?" + urlencode(filters))["calls"]
        return calls

    def clear_calls(self) -> None:
        """Forget the calls so far."""
        self.ask("DELETE", "/_calls")

    def tasks(self) -> list[dict[str, Any]]:
        """Return what was accepted, and would have been paid for."""
        tasks: list[dict[str, Any]] = self.ask("GET", "/_tasks")["tasks"]
        return tasks

    def titles(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the truth about the titles: all, or `limit` of them `after` a bangumi_id."""
        titles: list[dict[str, Any]] = self.ask("GET", "/_titles?" + urlencode(filters))["titles"]
        return titles

    def change_cover(self, bangumi_id: int, cover: int) -> None:
        """Put another picture behind the addresses of a title's cover and poster."""
        self.ask("POST", "/_titles", {"bangumi_id": bangumi_id, "cover": cover})

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Change settings while it runs; return all of them."""
        settings: dict[str, Any] = self.ask("POST", "/_settings", changes)
        return settings

    def callback(self, task: str, kind: str) -> int:
        """Send a callback that is wrong; return what the receiver answered."""
        status: int = self.ask("POST", "/_callbacks", {"task": task, "kind": kind})["status"]
        return status

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Turn a knob; fail if it refuses."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        assert response.status < 300, content.decode()
        return json.loads(content)

    def stop(self) -> None:
        """End the process, as a machine that dies would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE_SECONDS)


@contextmanager
def running_sandbox(
    *, seconds: Mapping[str, float] | None = None, spread: float = 0.0, keys: tuple[str, ...] = (KEY,), **options: Any
) -> Iterator[SandboxProcess]:
    """Run a sandbox on a free port until the block ends. Further options are those of `longtake sandbox`."""
    arguments = ["--port", str(options.pop("port", 0)), "--json", "--quiet", "--spread", str(spread)]
    arguments += [f"--key={key}" for key in keys]
    arguments += [f"--seconds={name}={value}" for name, value in {**SECONDS, **(seconds or {})}.items()]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        arguments += [option] if value is True else [] if value is False else [f"{option}={value}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "longtake", "sandbox", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the sandbox ended before it had started"
        key = keys[0] if keys else KEY
        yield SandboxProcess(process, json.loads(line)["url"], key, str(options.get("webhook_key", "")))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=PATIENCE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
