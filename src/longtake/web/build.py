"""The web application, put together from what it serves."""

from collections.abc import Iterable
from importlib.metadata import version

from fastapi import FastAPI
from starlette.types import ASGIApp

from longtake.engine.engine import Engine
from longtake.web.frame import Frame
from longtake.web.problems import install_handlers
from longtake.web.readiness import Readiness
from longtake.web.routes import build_routes


def create_api(engine: Engine, readiness: Readiness, token: str) -> FastAPI:
    """Return the routes with their error handling. The pages that FastAPI offers load scripts from elsewhere: off."""
    app = FastAPI(title="Longtake", version=version("longtake"), docs_url=None, redoc_url=None)
    app.include_router(build_routes(engine, readiness, token))
    install_handlers(app)
    return app


def create_web(engine: Engine, readiness: Readiness, token: str, allowed_hosts: Iterable[str]) -> ASGIApp:
    """Return what the HTTP server runs: every request passes the frame first."""
    return Frame(create_api(engine, readiness, token), allowed_hosts)
