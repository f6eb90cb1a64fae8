"""The one secret all others are derived from: a setting that machines share, or a file that is made once."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from longtake.errors import SecretFileUnusable
from longtake.settings.secrets import LEAST_CHARACTERS

if TYPE_CHECKING:
    from longtake.settings import Settings

FILE_NAME = "secret.key"
KEY_BYTES = 32
OTHERS = stat.S_IRWXG | stat.S_IRWXO
MOST_BYTES = 4096


def derive_key(secret: str, purpose: str) -> bytes:
    """Return 32 bytes that only whoever has the secret can make, different for every purpose."""
    # Here: most commands have a root secret and never derive a key from it.
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(SHA256(), KEY_BYTES, salt=None, info=f"longtake/{purpose}".encode()).derive(secret.encode())


class RootSecret:
    """The secret; read or made only when somebody needs it, so that a command that does not leaves no file behind."""

    def __init__(self, configured: str, folder: Path) -> None:
        self._configured = configured
        self._file = folder / FILE_NAME
        self._secret = configured

    @classmethod
    def of(cls, settings: Settings) -> RootSecret:
        """Return the secret these settings mean."""
        return cls(settings.secret_key.get_secret_value(), settings.data_dir)

    def derive(self, purpose: str) -> bytes:
        """Return the key for a purpose: `tokens`, `links`, `vault`."""
        if not self._secret:
            self._secret = read_or_make(self._file)
        return derive_key(self._secret, purpose)

    def exists(self) -> bool:
        """Say whether there is one already."""
        return bool(self._secret) or self._file.exists()


def read_or_make(file: Path) -> str:
    """Return what the file holds; the first process to come here makes it, all others read that one's."""
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise SecretFileUnusable(
            f"{file} cannot be used: {error.strerror or error}.",
            hint="Let this user read and write there, or set LONGTAKE_SECRET_KEY.",
        ) from None


def _make(file: Path) -> None:
    """Write it in full beside its place, then give it its name: nobody ever sees half of it, and the first one wins."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes files with mode 600.
    descriptor, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as new:
            new.write(secrets.token_urlsafe(KEY_BYTES) + "\n")
            new.flush()
            os.fsync(new.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink(missing_ok=True)
    _remember_name(file.parent)


def _remember_name(folder: Path) -> None:
    """Make the name survive a power cut: a secret that is lost takes all that it sealed with it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        content = opened.read(MOST_BYTES)
    if os.name == "posix" and mode & OTHERS:
        raise SecretFileUnusable(
            f"{file} can be read or changed by others (mode {stat.S_IMODE(mode):o}).",
            hint=f"Run `chmod 600 {file}`. If others may have read it: stop all and remove it; a new one is made,"
            " and tokens made so far and stored secrets are lost.",
        )
    secret = content.decode("ascii", errors="replace").strip()
    if len(secret) < LEAST_CHARACTERS:
        raise SecretFileUnusable(
            f"{file} does not hold a secret: it is too short.",
            hint="Bring it back from a backup, or remove it: a new one is made, and stored secrets are lost.",
        )
    return secret
