"""The web application, assembled from its routes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from longtake.actions import Actions
from longtake.engine.engine import Engine
from longtake.http.problem_schema import install_openapi
from longtake.http.problems import install_handlers
from longtake.server.middleware import Frame
from longtake.server.routes import Readiness, build_routes
from longtake.services.accounts.authenticator import Authenticator
from longtake.services.accounts.current_caller import current_caller

UPLOADS = ("POST", "/v1/references")
#: What a form adds around a file.
FORM_BYTES = 65_536


@dataclass(frozen=True)
class Serving:
    """What the routes need. `token` is the one in server.json, `capabilities` the routes of what is built on top."""

    engine: Engine
    readiness: Readiness
    token: str
    accounts: Authenticator
    actions: Actions
    capabilities: Sequence[APIRouter] = field(default=())


def create_api(serving: Serving) -> FastAPI:
    """Return the routes with their error handling. The pages that FastAPI offers load scripts from elsewhere: off."""
    app = FastAPI(title="Longtake", version=version("longtake"), docs_url=None, redoc_url=None)
    app.state.accounts = serving.accounts
    app.state.before_body = current_caller
    own = build_routes(serving.engine, serving.readiness, serving.token, serving.actions)
    for router in (own, *serving.capabilities):
        # Not included: that would build every route a second time, and match every request twice.
        app.router.routes.extend(router.routes)
    install_handlers(app)
    install_openapi(app)
    return app


def create_web(
    serving: Serving, *, allowed_hosts: Iterable[str], upload_bytes: int, allowed_origins: Iterable[str] = ()
) -> ASGIApp:
    """Return what the HTTP server runs: every request passes the frame first."""
    return Frame(create_api(serving), allowed_hosts, {UPLOADS: upload_bytes + FORM_BYTES}, allowed_origins)
