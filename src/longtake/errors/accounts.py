"""Of who asks, and of stored secrets."""

from longtake.errors.base import LongtakeError


class AccountError(LongtakeError):
    """The caller is unknown, or does not have permission."""

    code = "ACCOUNT_ERROR"


class Unauthorized(AccountError):
    """The token or key is missing, expired or not valid."""

    code = "UNAUTHORIZED"
    default_hint = "Send `Authorization: Bearer …` with a token or an API key; `longtake token` makes a token."


class Forbidden(AccountError):
    """The caller is known, but does not have permission for this."""

    code = "FORBIDDEN"


class RateLimited(AccountError):
    """One user sent too many requests in a minute, or one address too many invalid tokens and keys."""

    code = "RATE_LIMITED"
    default_hint = "Wait for the seconds that Retry-After gives, then send requests more slowly."


class KeySetUnavailable(AccountError):
    """The keys that verify tokens have not been fetched yet."""

    code = "KEY_SET_UNAVAILABLE"
    default_hint = "Check the address in LONGTAKE_JWT_JWKS. Longtake fetches it again at most once a minute."


class AuthenticationRequired(AccountError):
    """The server would listen beyond this machine, but no keys for tokens are configured."""

    code = "AUTHENTICATION_REQUIRED"
    default_hint = "Set LONGTAKE_JWT_SECRET or LONGTAKE_JWT_JWKS, or listen on 127.0.0.1."


class TokensElsewhere(AccountError):
    """This installation does not make tokens: the issuer behind LONGTAKE_JWT_JWKS signs them."""

    code = "TOKENS_ELSEWHERE"
    default_hint = "Ask that issuer for a token, or make an API key with `longtake keys create`."


class VaultError(LongtakeError):
    """A secret cannot be stored or read."""

    code = "VAULT_ERROR"


class SecretFileUnusable(VaultError):
    """The file with this machine's secret is damaged, cannot be read, or others can read it."""

    code = "SECRET_FILE_UNUSABLE"


class VaultKeyWrong(VaultError):
    """This process does not have the key for a stored secret. Nothing was changed."""

    code = "VAULT_KEY_WRONG"
    default_hint = (
        "Restore the LONGTAKE_MASTER_KEY, LONGTAKE_SECRET_KEY or secret.key with which the secret was stored."
        " If that is lost, run `longtake secrets remove NAME` and set the secret again."
    )
