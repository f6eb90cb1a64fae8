"""A real Chromium for tests: the one that is there, or one that is installed now; never a silent skip."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser, Playwright

VARIABLE = "LONGTAKE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # root may not use it
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300")
PACKAGES = ("install", "-y", "chromium", "fonts-noto-cjk")
COMMAND = "apt-get install chromium fonts-noto-cjk"
LOCK = Path(tempfile.gettempdir()) / "longtake-chromium.lock"
INSTALL_SECONDS = 900


class NoBrowser(Exception):
    """There is no Chromium and none can be installed from here."""


def find_chromium(playwrights_own: str) -> str:
    """Return a Chromium's path; the first who finds none installs it, and the others wait for that."""
    named = os.environ.get(VARIABLE, "")
    if named:
        if shutil.which(named) is None:
            raise NoBrowser(f"{VARIABLE}={named} is not a program.")
        return named
    if found := _installed(playwrights_own):
        return found
    with _alone():
        if found := _installed(playwrights_own):
            return found
        _install()
    if found := _installed(playwrights_own):
        return found
    raise NoBrowser(f"The tests of pages need Chromium. Type `{COMMAND}`, or name one: {VARIABLE}=/path/to/chromium.")


def _installed(playwrights_own: str) -> str | None:
    paths = (shutil.which(name) for name in (*NAMES, playwrights_own))
    return next((path for path in paths if path), None)


def _install() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}

    def apt(*arguments: str) -> bool:
        ended = subprocess.run([*APT, *arguments], env=environment, timeout=INSTALL_SECONDS, check=False)
        return ended.returncode == 0

    # A machine that never asked has no list of packages, or an old one.
    if not apt(*PACKAGES) and apt("update"):
        apt(*PACKAGES)


@contextmanager
def _alone() -> Iterator[None]:
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Run a headless Chromium until the block ends."""
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        try:
            yield browser
        finally:
            await browser.close()


async def launch(playwright: Playwright) -> Browser:
    """Start a Chromium of the system, or Playwright's own."""
    path = find_chromium(playwright.chromium.executable_path)
    return await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
