"""Files that only their owner can read, because they contain tokens."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_private_file(file: Path, content: Any) -> None:
    """Write JSON atomically; other users can never read it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes files with mode 600.
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(content, out)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
