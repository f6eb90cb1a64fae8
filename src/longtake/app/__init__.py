"""Puts everything together: settings, database, engine, worker, web. The only layer that knows them all."""

from longtake.app.application import Application

__all__ = ["Application"]
