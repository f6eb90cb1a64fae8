"""A real S3 server for tests: SeaweedFS in one process, right about signatures, expiry and multipart uploads."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson

from tests.wait import wait_for

BUCKET = "longtake-tests"
ACCESS_KEY_ID = "tests-key"
SECRET_ACCESS_KEY = "tests-secret"
#: Between being found free and being used, a port may be taken by any other process.
STARTS = 3
#: One of its parts calls another at the port this far above.
GRPC_OFFSET = 10_000


def start_s3_server() -> S3Server:
    """Start a server; with other ports when it does not come up with the first ones."""
    for _ in range(STARTS - 1):
        with contextlib.suppress(AssertionError):
            return S3Server()
    return S3Server()


class S3Server:
    """Started once for all tests of a process; each test works in a folder of its own in one bucket."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="longtake-s3-"))
        names = ("s3", "s3.grpc", "master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "admin")
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.endpoint = f"http://127.0.0.1:{self._ports['s3']}"
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY}
        self._log = (self.folder / "log").open("wb")
        self._process = subprocess.Popen(
            [str(Path(sys.executable).parent / "weed"), "mini", *self._options()],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **keys},
            cwd=self.folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _options(self) -> list[str]:
        (self.folder / "data").mkdir()
        ports = {
            "s3.port": "s3", "s3.port.grpc": "s3.grpc", "master.port": "master", "master.port.grpc": "master.grpc",
            "volume.port": "volume", "volume.port.grpc": "volume.grpc", "filer.port": "filer",
            "filer.port.grpc": "filer.grpc", "admin.port": "admin",
        }  # fmt: skip
        options = {
            "dir": self.folder / "data", "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "master.telemetry": "false",
            "admin.ui": "false", "webdav": "false", "s3.port.iceberg": 0, "s3.port.lance": 0, "bucket": BUCKET,
            "s3.autoCreateBucket": "false", "filer.localSocket": self.folder / "filer.sock",
            "s3.localSocket": self.folder / "s3.sock",
            **{option: self._ports[name] for option, name in ports.items()},
        }  # fmt: skip
        return [f"-{name}={value}" for name, value in options.items()]

    def url(self, folder: str, **options: str) -> str:
        """Return a storage address for a folder of the bucket."""
        query = "&".join(f"{name}={value}" for name, value in ({"endpoint": self.endpoint} | options).items())
        return f"s3://{BUCKET}/{folder}?region=us-east-1&{query}"

    def unfinished_uploads(self, folder: str) -> list[str]:
        """Return the keys of multipart uploads in the folder that were neither completed nor aborted."""
        # A part that arrives after its upload was aborted brings back the bare folder, which is no upload any more.
        uploads = [entry for entry in self._entries(f"{BUCKET}/.uploads/") if entry["Extended"]]
        return [key for key in map(_key_of, uploads) if key.startswith(f"{folder}/")]

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """Return what the server has in a folder below its buckets."""
        address = f"http://127.0.0.1:{self._ports['filer']}/buckets/{path}?limit=1000"
        request = urllib.request.Request(address, headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - our own server
                return orjson.loads(answer.read())["Entries"] or []
        except urllib.error.HTTPError as error:
            with error:
                return []

    def stop(self) -> None:
        """Stop the server and remove its files."""
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        wait_for(self._look, "the S3 server's start", lambda seen: seen[0])

    def _look(self) -> tuple[bool, str]:
        """Return whether it is ready, and the end of its log."""
        said = (self.folder / "log").read_text(errors="replace")[-2000:]
        ready = self._is_ready()
        assert ready or self._process.poll() is None, said
        return ready, said

    def _is_ready(self) -> bool:
        """Say whether the server answers and the bucket is there, which is made last."""
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=2) as answer:  # noqa: S310
                answer.read()
            return any(entry["FullPath"].endswith(BUCKET) for entry in self._entries(""))
        return False


def _key_of(upload: dict[str, Any]) -> str:
    return base64.b64decode(upload["Extended"]["key"]).decode()


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now, and whose neighbours at the offset are as well."""
    sockets: list[socket.socket] = []
    ports: list[int] = []
    try:
        while len(ports) < count:
            one = socket.create_server(("127.0.0.1", 0))
            sockets.append(one)
            port = one.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                sockets.append(socket.create_server(("127.0.0.1", port + GRPC_OFFSET)))
                ports.append(port)
    finally:
        for one in sockets:
            one.close()
    return ports
