"""`./dev shape`: how large the code is, how its modules are named, and through which files one image passes.

The image's way is traced, not guessed: a server with its worker runs in a thread, a client asks for an image and reads
the stream of events until the copy and the thumbnail are there, and every file whose code ran meanwhile counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "longtake"
#: Nouns that only look like gerunds.
NOUNS = {"paging"}
WAY_ENDS = {"asset.stored", "asset.thumbnail"}
PATIENCE_SECONDS = 60

sys.path.insert(0, str(ROOT))


def main() -> None:
    """Print the counters."""
    parser = argparse.ArgumentParser(prog="./dev shape", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--files", action="store_true", help="list the files of the image's way")
    options = parser.parse_args()
    files = [file for file in SOURCE.rglob("*.py") if not is_generated(file)]
    print(f"{len(files)} files, {sum(map(count_lines, files)):,} lines under src/ (without generated ones)")
    gerunds = [file for file in files if file.stem.endswith("ing") and file.stem not in NOUNS]
    print(f"{len(gerunds)} modules named by a gerund: {', '.join(sorted(shown(file) for file in gerunds)) or 'none'}")
    small = [file for file in files if count_lines(file) < 50 and file.name != "__init__.py"]
    print(f"{len(small)} files under 50 lines, {sum(count_lines(file) > 400 for file in files)} over 400")
    print("entries per folder:")
    folders = Counter(file.parent for file in files if file.name != "__init__.py")
    for folder, count in sorted(folders.items()):
        print(f"  {count:4}  {shown(folder)}/")
    way = trace_image()
    print(f"{len(way)} files on one image's way from POST to its last event")
    for file in sorted(way) if options.files else ():
        print(f"  {shown(file)}")


def is_generated(file: Path) -> bool:
    """Say whether a script made the file."""
    return file.read_text(encoding="utf-8").startswith('"""Made from ')


def count_lines(file: Path) -> int:
    """Return how many lines a file has."""
    return file.read_text(encoding="utf-8").count("\n")


def shown(path: Path) -> str:
    """Return a path as people name it."""
    return str(path.relative_to(SOURCE))


class Trace:
    """Notes the files of the package whose code runs while it is on, in all threads started after it was made."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.on = False
        threading.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.on and event == "call":
            self.files.add(frame.f_code.co_filename)

    def end(self) -> set[Path]:
        """Return the files of the package."""
        self.on = False
        threading.setprofile(None)
        return {Path(file) for file in self.files if file.startswith(str(PACKAGE))}


def trace_image() -> set[Path]:
    """Return the files that one image passes through on SQLite with files in a folder."""
    from tests.sandbox_process import running_sandbox
    from tests.service.processes import Place, Server

    def ask(server: Server, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(server.url + path, data, headers)  # noqa: S310 - our own server
        return urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)  # noqa: S310 - as above

    from tests.api.stage import SECRET
    from tests.api.stage import token as make_token

    token = make_token("ada")
    with tempfile.TemporaryDirectory() as folder, running_sandbox() as sandbox:
        settings = {
            "LONGTAKE_JWT_SECRET": SECRET,
            "LONGTAKE_KIE_API_KEY": sandbox.key,
            "LONGTAKE_KIE_BASE_URL": sandbox.kie_url,
            "LONGTAKE_ALLOW_ADDRESSES": "loopback",
        }
        trace = Trace()
        with Place(Path(folder), settings).server_here() as server:
            server.operate("credits.grant", user_id="ada", amount=100, reason="the trace", by="shape")
            with ask(server, "/v1/events") as stream:
                trace.on = True
                ask(server, "/v1/images/generate", {"model": "nano-banana", "prompt": "a red fox"}).close()
                missing = set(WAY_ENDS)
                while missing:
                    line = stream.readline().decode()
                    missing.discard(line.removeprefix("event: ").strip())
                way = trace.end()
        return way


if __name__ == "__main__":
    main()
