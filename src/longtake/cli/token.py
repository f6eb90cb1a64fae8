"""`longtake token`: a token for a user, made with this machine's secret."""

from typing import TYPE_CHECKING, Annotated

import typer

from longtake.terminal.options import AsJson

if TYPE_CHECKING:
    from longtake.settings import Settings

MOST_HOURS = 24 * 366
ROLES = ("user", "operator", "admin", "service")


def print_token(
    user: Annotated[str, typer.Option(help="Whose token it is; what is made with it belongs to this user.")] = "local",
    role: Annotated[str, typer.Option(help="user, operator, admin or service.")] = "user",
    hours: Annotated[float, typer.Option(min=0.01, max=MOST_HOURS, help="For how long it is valid.")] = 12,
    as_json: AsJson = False,
) -> None:
    """Print a token for the HTTP API, signed with this machine's secret or with LONGTAKE_JWT_SECRET.

    Where LONGTAKE_JWT_JWKS names another issuer, none is made here.
    """
    from longtake.services.accounts.caller import LONGEST_USER_ID, is_user_id
    from longtake.settings import load_settings
    from longtake.terminal.output import print_json, print_line

    if role not in ROLES:
        raise typer.BadParameter(f"must be one of {', '.join(ROLES)}", param_hint="--role")
    if not is_user_id(user):
        raise typer.BadParameter(f"must have 1 to {LONGEST_USER_ID} printable characters", param_hint="--user")
    token = make_token(load_settings(), user, role, hours)
    print_json({"token": token, "user": user, "role": role}) if as_json else print_line(token)


def make_token(settings: "Settings", user: str, role: str, hours: float) -> str:
    """Return a token that this machine's server accepts; raise TokensElsewhere if another issuer signs tokens."""
    from datetime import timedelta

    from longtake.clock import SystemClock
    from longtake.services.accounts.errors import TokensElsewhere
    from longtake.services.accounts.own_tokens import ExpectedClaims, mint, token_secret
    from longtake.services.vault.root_secret import RootSecret

    if settings.jwt_jwks:
        raise TokensElsewhere("Tokens are signed by the issuer whose keys LONGTAKE_JWT_JWKS names.")
    root = RootSecret.of(settings)
    return mint(
        token_secret(settings, lambda: root.derive("tokens")),
        ExpectedClaims(settings.jwt_issuer, settings.jwt_audience),
        user_id=user,
        role=role,
        now=SystemClock().now(),
        lifetime=timedelta(hours=hours),
    )
