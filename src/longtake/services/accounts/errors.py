"""Errors of callers, tokens and keys."""

from longtake.errors import LongtakeError


class AccountError(LongtakeError):
    """The caller is unknown, or does not have permission."""

    code = "ACCOUNT_ERROR"


class Unauthorized(AccountError):
    """The token or key is missing, expired or not valid."""

    code = "UNAUTHORIZED"
    http_status = 401
    default_hint = "Send `Authorization: Bearer …` with a token or an API key; `longtake token` makes a token."


class Forbidden(AccountError):
    """The caller is known, but does not have permission for this."""

    code = "FORBIDDEN"
    http_status = 403


class RateLimited(AccountError):
    """One user sent too many requests in a minute, or one address too many invalid tokens and keys."""

    code = "RATE_LIMITED"
    http_status = 429
    default_hint = "Wait for the seconds that Retry-After gives, then send requests more slowly."


class KeySetUnavailable(AccountError):
    """The keys that verify tokens have not been fetched yet."""

    code = "KEY_SET_UNAVAILABLE"
    http_status = 503
    default_hint = "Check the address in LONGTAKE_JWT_JWKS. Longtake fetches it again at most once a minute."


class AuthenticationRequired(AccountError):
    """The server would listen beyond this machine, but no keys for tokens are configured."""

    code = "AUTHENTICATION_REQUIRED"
    exit_code = 2
    default_hint = "Set LONGTAKE_JWT_SECRET or LONGTAKE_JWT_JWKS, or listen on 127.0.0.1."


class TokensElsewhere(AccountError):
    """This installation does not make tokens: the issuer behind LONGTAKE_JWT_JWKS signs them."""

    code = "TOKENS_ELSEWHERE"
    default_hint = "Ask that issuer for a token, or make an API key with `longtake keys create`."
