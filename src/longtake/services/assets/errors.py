"""Errors of assets and their links."""

from longtake.adapters.decoder.errors import AssetError


class ResultNotCopied(AssetError):
    """This attempt to copy a result to storage failed."""

    code = "RESULT_NOT_COPIED"
    http_status = 502


class SourceGone(ResultNotCopied):
    """The provider's address for a result has expired, or its file does not exist."""

    code = "SOURCE_GONE"


class SourceUnknown(ResultNotCopied):
    """Longtake could not ask the provider for a new address of a result."""

    code = "SOURCE_UNKNOWN"


class AssetGone(AssetError):
    """The asset exists, but its file is gone."""

    code = "ASSET_GONE"
    http_status = 410


class LinkInvalid(AssetError):
    """The signed link has expired or was altered."""

    code = "LINK_INVALID"
    http_status = 403
    default_hint = "Request the task or asset again: the answer has a new link."
