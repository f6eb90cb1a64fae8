"""Errors of copies and imports."""

from longtake.adapters.decoder.errors import AssetError


class TooManyImports(AssetError):
    """The user already has the maximum number of imports under way; `limit` gives that number."""

    code = "IMPORTS_TOO_MANY"
    http_status = 429
    default_hint = "GET /v1/assets?role=import&state=pending lists them. Wait until some have finished."
