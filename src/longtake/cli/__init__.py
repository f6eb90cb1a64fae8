"""The command line. Only the module of the command that is called is imported, so that it answers at once."""

from longtake.cli.main import main

__all__ = ["main"]
