"""Of media that we keep."""

from longtake.errors.base import LongtakeError


class AssetError(LongtakeError):
    """A media file cannot be accepted or served."""

    code = "ASSET_ERROR"


class MediaRefused(AssetError):
    """The file is not an image or video in a supported format."""

    code = "MEDIA_REFUSED"
    default_hint = "Supported are PNG, JPEG, WebP and GIF images, and MP4, QuickTime and WebM videos."


class DecoderFailed(AssetError):
    """The process that decodes media reached its limits, or crashed while it read a file."""

    code = "DECODER_FAILED"
    default_hint = "The file may be damaged or malicious. Nothing else was affected."


class DecodersBusy(AssetError):
    """All decoder processes stayed busy with other files for too long."""

    code = "DECODERS_BUSY"
    default_hint = "Longtake tries again automatically. LONGTAKE_DECODERS sets how many decoders there are."


class ResultNotCopied(AssetError):
    """This attempt to copy a result to storage failed."""

    code = "RESULT_NOT_COPIED"


class SourceGone(ResultNotCopied):
    """The provider's address for a result has expired, or its file does not exist."""

    code = "SOURCE_GONE"


class SourceUnknown(ResultNotCopied):
    """Longtake could not ask the provider for a new address of a result."""

    code = "SOURCE_UNKNOWN"


class AssetGone(AssetError):
    """The asset exists, but its file is gone."""

    code = "ASSET_GONE"


class TooManyImports(AssetError):
    """The user already has the maximum number of imports under way; `limit` gives that number."""

    code = "IMPORTS_TOO_MANY"
    default_hint = "GET /v1/assets?role=import&state=pending lists them. Wait until some have finished."


class ImportFileInvalid(AssetError):
    """The list of files to import cannot be parsed."""

    code = "IMPORT_FILE_INVALID"
    default_hint = "Send CSV in UTF-8 with a header: url, and optionally title and kind (image or video)."


class LinkInvalid(AssetError):
    """The signed link has expired or was altered."""

    code = "LINK_INVALID"
    default_hint = "Request the task or asset again: the answer has a new link."
