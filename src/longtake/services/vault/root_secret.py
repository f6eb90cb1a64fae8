"""The root secret, from which all keys are derived: a setting that machines share, or a file created once."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from longtake.services.vault.errors import SecretFileUnusable
from longtake.settings import Settings
from longtake.settings.checks import LEAST_CHARACTERS

FILE_NAME = "secret.key"
KEY_BYTES = 32
OTHERS = stat.S_IRWXG | stat.S_IRWXO
MOST_BYTES = 4096


def derive_key(secret: str, purpose: str) -> bytes:
    """Return a key of 32 bytes derived from the secret, different for every purpose."""
    # Imported here: most commands have a root secret and never derive a key from it.
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(SHA256(), KEY_BYTES, salt=None, info=f"longtake/{purpose}".encode()).derive(secret.encode())


class RootSecret:
    """The root secret, read or created on first use, so that a command without need for it leaves no file behind."""

    def __init__(self, configured: str, folder: Path) -> None:
        self._configured = configured
        self._file = folder / FILE_NAME
        self._secret = configured

    @classmethod
    def of(cls, settings: Settings) -> RootSecret:
        return cls(settings.secret_key.get_secret_value(), settings.data_dir)

    def derive(self, purpose: str) -> bytes:
        """Return the key for a purpose: `tokens`, `links`, `vault`."""
        if not self._secret:
            self._secret = read_or_make(self._file)
        return derive_key(self._secret, purpose)

    def exists(self) -> bool:
        return bool(self._secret) or self._file.exists()


def read_or_make(file: Path) -> str:
    """Return the secret in the file; the first process creates it, and all others read that one."""
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise SecretFileUnusable(
            f"{file} cannot be used: {error.strerror or error}.",
            hint="Let this user read and write it, or set LONGTAKE_SECRET_KEY.",
        ) from None


def _make(file: Path) -> None:
    """Write the file completely under another name, then link it: no process reads half a file, and the first wins."""
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
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut: without this secret, nothing it sealed can be opened."""
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
            hint=f"Run `chmod 600 {file}`. If others may have read it, stop all processes and delete it: a new one is"
            " created, and existing tokens and stored secrets are lost.",
        )
    secret = content.decode("ascii", errors="replace").strip()
    if len(secret) < LEAST_CHARACTERS:
        raise SecretFileUnusable(
            f"{file} does not hold a secret: it is too short.",
            hint="Restore it from a backup, or delete it: a new one is created, and stored secrets are lost.",
        )
    return secret
