"""The command line. Each command imports what it needs when it runs, so that `longtake --help` answers at once."""

from longtake.cli.main import main

__all__ = ["main"]
