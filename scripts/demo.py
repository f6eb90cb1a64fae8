"""`./dev demo`: a sandbox, a server with a worker, a sample user and three tasks, through a kill -9.

Everything lives in a temporary folder. On a terminal the server stays up until Ctrl-C, so that you can look around;
`--once` ends as soon as all is shown.
"""

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.live import Live
from rich.table import Table

USER = "ada"
CREDITS = 500
DEADLINE_SECONDS = 60.0
WISHES = [
    ("images", "nano-banana", "a red fox in snow"),
    ("images", "gemini-flash-image", "a lighthouse at dawn"),
    ("videos", "kling-2.6", "waves rolling in, slowly"),
]
LOOK_SECONDS = 0.25
ENDED = {"completed", "failed", "cancelled"}
console = Console(highlight=False, soft_wrap=True)


class DemoFailed(Exception):
    """Something did not come out as promised."""


class Demo:
    """A folder, and the processes that live in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        self.give_up_at = time.monotonic() + DEADLINE_SECONDS
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.sandbox_url = ""
        self.token = ""
        self.server: subprocess.Popen[str] | None = None
        self.processes: list[subprocess.Popen[str]] = []
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGTAKE_")}

    def start_sandbox(self) -> None:
        """Start what stands for the providers."""
        options = ["--json", "--quiet", "--port", "0", "--seconds", "image=5", "--seconds", "video=9", "--key", "demo"]
        sandbox = self._start("sandbox", *options)
        line = sandbox.stdout.readline() if sandbox.stdout else ""
        if not line:
            raise DemoFailed("the sandbox did not start")
        self.sandbox_url = json.loads(line)["url"]
        self.environment |= {
            "LONGTAKE_DATA_DIR": str(self.folder),
            "LONGTAKE_PORT": str(self.port),
            "LONGTAKE_PUBLIC_URL": self.url,
            "LONGTAKE_ALLOW_ADDRESSES": "127.0.0.1/32",
            "LONGTAKE_KIE_BASE_URL": f"{self.sandbox_url}/kie",
            "LONGTAKE_GEMINI_BASE_URL": f"{self.sandbox_url}/gemini/v1beta",
            "LONGTAKE_KIE_API_KEY": "demo",
            "LONGTAKE_GEMINI_API_KEY": "demo",
        }

    def start_server(self) -> None:
        """Start the server, with its worker inside, and wait until it answers."""
        self.server = self._start("serve")
        self.wait_for(self._answers, "the server's start")

    def kill_server(self) -> int:
        """End it without a warning."""
        if self.server is None:
            return 0
        self.server.kill()
        return self.server.wait(timeout=10)

    def longtake(self, *arguments: str) -> str:
        """Run a command as a user would."""
        command = [sys.executable, "-m", "longtake", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise DemoFailed(f"`longtake {' '.join(arguments)}` said: {done.stderr.strip()}")
        return done.stdout.strip()

    def ask(self, method: str, path: str, body: Any = None, url: str = "") -> Any:
        """Send a request of the sample user; return the answer's JSON."""
        address = urlsplit(url or self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        if answer.status >= 300:
            raise DemoFailed(f"{method} {path} answered {answer.status}: {content.get('detail', content)}")
        return content

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        """Look until it is so; a server that died or a deadline that passed ends the demo."""
        while not condition():
            if self.server is not None and self.server.poll() is not None:
                raise DemoFailed(f"the server ended by itself while waiting for {what}")
            if time.monotonic() > self.give_up_at:
                raise DemoFailed(f"{what} took too long")
            time.sleep(LOOK_SECONDS)

    def end(self) -> None:
        """Stop every process that is left."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=15)
            if process.poll() is None:
                process.kill()

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "longtake", *arguments],
                env=self.environment,
                stdout=subprocess.PIPE if arguments[0] == "sandbox" else log,
                stderr=log,
                text=True,
                # Ctrl-C is for the demo alone; it stops the others itself.
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            with contextlib.closing(connection):
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
        return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end as soon as all is shown, also on a terminal")
    stay = not parser.parse_args().once and sys.stdin.isatty() and sys.stdout.isatty()
    with demo_folder() as folder:
        demo = Demo(folder)
        try:
            wanted = show(demo)
            if stay:
                say_where_to_look(demo, wanted)
                console.print("\nThe server stays up: Ctrl-C ends it.")
                signal.pause()
        except DemoFailed as error:
            console.print(f"\nThe demo failed: {error}.", style="bold red")
            if demo.log.exists():
                console.print("The end of the log:")
                console.print("\n".join(demo.log.read_text(errors="replace").splitlines()[-20:]), markup=False)
            return 1
        except KeyboardInterrupt:
            console.print("\nStopped.")
        finally:
            demo.end()
    return 0


@contextlib.contextmanager
def demo_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="longtake-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def all_accepted(tasks: list[dict[str, Any]]) -> bool:
    """Say whether every paid submit is on record. Killed in between, a task would wait for a person's review."""
    # Gemini's images come in the answer itself, and may be asked for again.
    return all(one["status"] != "pending" for one in tasks if not one["model"].startswith("gemini"))


def show(demo: Demo) -> list[str]:
    """Go through the whole story; return the tasks."""
    demo.start_sandbox()
    console.print("A sandbox stands for the providers: it speaks their wire formats, takes its time, and really draws.")
    demo.start_server()
    demo.token = demo.longtake("token", "--user", USER)
    demo.longtake("credits", "grant", USER, str(CREDITS), "--reason", "demo")
    console.print(f"The server runs with a worker inside; {USER} has {CREDITS} credits and asks for three things.\n")
    conversation = demo.ask("POST", "/v1/conversations", {"title": "A first day"})["id"]
    wanted = [submit(demo, conversation, *wish) for wish in WISHES]
    with Live(draw(tasks_of(demo, wanted)), console=console, refresh_per_second=8) as live:

        def look(condition: Callable[[list[dict[str, Any]]], bool]) -> Callable[[], bool]:
            def looked() -> bool:
                tasks = tasks_of(demo, wanted)
                live.update(draw(tasks))
                return condition(tasks)

            return looked

        demo.wait_for(look(all_accepted), "the providers' answers")
        status = demo.kill_server()
        live.console.print(f"kill -9: the server is gone (status {status}) while the providers work on.")
        killed_at = time.monotonic()
        demo.start_server()
        live.console.print(f"Started again after {time.monotonic() - killed_at:.1f} s; what was accepted goes on.")
        demo.wait_for(look(lambda tasks: all(one["status"] in ENDED for one in tasks)), "the ends of all tasks")
        demo.wait_for(look(all_saved), "the copies of all results")
    judge(demo, wanted, conversation)
    return wanted


def submit(demo: Demo, conversation: str, what: str, model: str, prompt: str) -> str:
    body = {"model": model, "prompt": prompt, "conversation_id": conversation}
    return str(demo.ask("POST", f"/v1/{what}/generate", body)["id"])


def tasks_of(demo: Demo, wanted: list[str]) -> list[dict[str, Any]]:
    found = {one["id"]: one for one in demo.ask("GET", "/v1/tasks")["tasks"]}
    return [found[one] for one in wanted]


def all_saved(tasks: list[dict[str, Any]]) -> bool:
    return all(result["save_state"] == "success" for one in tasks for result in one["results"])


def draw(tasks: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("prompt", "model", "status", "credits", "saved"):
        table.add_column(name)
    for one in tasks:
        saved = ", ".join(f"{result['size'] or 0:,} bytes" for result in one["results"] if result["size"])
        price = f"{one['credits']['price']} {one['credits']['state']}"
        table.add_row(one["prompt"], one["model"], one["status"], price, saved)
    return table


def judge(demo: Demo, wanted: list[str], conversation: str) -> None:
    """Compare what happened with what was promised."""
    tasks = tasks_of(demo, wanted)
    paid = demo.ask("GET", "/_tasks", url=demo.sandbox_url)["tasks"]
    unread = demo.ask("GET", f"/v1/conversations/{conversation}")["unread"]
    balance = demo.ask("GET", "/v1/credits")
    spent = sum(one["credits"]["price"] for one in tasks)
    completed = sum(one["status"] == "completed" for one in tasks)
    console.print(
        f"\n{completed} of {len(tasks)} completed, {unread} unread messages, {spent} credits charged,"
        f" {balance['available']} left, {balance['held']} held."
    )
    console.print(demo.longtake("credits", "audit"), markup=False)
    if completed != len(tasks) or balance["available"] != CREDITS - spent or balance["held"] or unread != len(tasks):
        raise DemoFailed("something is missing or was charged wrongly")
    # Gemini's images come in the answer itself: one that a kill cut off is asked for again, and that is acceptable.
    once = [one["prompt"] for one in paid if one["provider"] == "kie"]
    console.print(f"KIE was asked for {len(once)} tasks, {len(once) - len(set(once))} of them twice.")
    if len(set(once)) != len(once):
        raise DemoFailed("something was paid for twice")


def say_where_to_look(demo: Demo, wanted: list[str]) -> None:
    console.print("\nOpen these (the links are signed and live for five minutes):", style="bold")
    for one in tasks_of(demo, wanted):
        console.print(f"  {one['results'][0]['url']}", markup=False, soft_wrap=True)
    console.print("\nOr look around:", style="bold")
    console.print(
        f"  export LONGTAKE_DATA_DIR={demo.folder} TOKEN={demo.token}\n"
        f'  curl -H "Authorization: Bearer $TOKEN" {demo.url}/v1/tasks\n'
        f"  ./dev run longtake jobs list\n"
        f"  ./dev run longtake credits history {USER}\n"
        f"  every call the providers got: {demo.sandbox_url}/_calls",
        markup=False,
        soft_wrap=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
