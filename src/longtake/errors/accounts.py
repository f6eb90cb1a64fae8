"""Of who asks, and of stored secrets."""

from longtake.errors.base import LongtakeError


class AccountError(LongtakeError):
    """Who asks is not known, or may not do what was asked."""

    code = "ACCOUNT_ERROR"


class Unauthorized(AccountError):
    """The token or key is missing, expired or not valid."""

    code = "UNAUTHORIZED"
    default_hint = "Send `Authorization: Bearer …` with a token or an API key; `longtake token` makes a token."


class Forbidden(AccountError):
    """The caller is known, but may not do this."""

    code = "FORBIDDEN"


class RateLimited(AccountError):
    """One user sends more requests, or one address more wrong tokens and keys, than a minute may have."""

    code = "RATE_LIMITED"
    default_hint = "Wait as many seconds as Retry-After says, then go on more slowly."


class KeySetUnavailable(AccountError):
    """The keys that tokens are checked with have not been fetched yet."""

    code = "KEY_SET_UNAVAILABLE"
    default_hint = "Look at what LONGTAKE_JWT_JWKS names; it is tried again at most once a minute."


class AuthenticationRequired(AccountError):
    """The server would listen on an open address without keys that were configured on purpose."""

    code = "AUTHENTICATION_REQUIRED"
    default_hint = "Set LONGTAKE_JWT_SECRET or LONGTAKE_JWT_JWKS, or listen on 127.0.0.1."


class TokensElsewhere(AccountError):
    """Tokens are made by the owner of the private keys of LONGTAKE_JWT_JWKS, not here."""

    code = "TOKENS_ELSEWHERE"
    default_hint = "Ask there for a token, or make an API key with `longtake keys create`."


class VaultError(LongtakeError):
    """Something secret cannot be kept or read."""

    code = "VAULT_ERROR"


class SecretFileUnusable(VaultError):
    """The file with this machine's secret is readable by others, damaged, or cannot be read."""

    code = "SECRET_FILE_UNUSABLE"


class VaultKeyWrong(VaultError):
    """A stored secret cannot be opened with the keys this process has. Nothing was changed."""

    code = "VAULT_KEY_WRONG"
    default_hint = (
        "Set LONGTAKE_MASTER_KEY (or LONGTAKE_SECRET_KEY, or bring back secret.key) to what it was when the secret was"
        " stored. If that is lost: `longtake secrets remove NAME`, then set it again."
    )
