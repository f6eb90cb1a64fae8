"""Of media that we keep."""

from longtake.errors.base import LongtakeError


class AssetError(LongtakeError):
    """A media file cannot be taken or given."""

    code = "ASSET_ERROR"


class MediaRefused(AssetError):
    """The bytes are not an image or video of a kind that is kept."""

    code = "MEDIA_REFUSED"
    default_hint = "Kept are PNG, JPEG, WebP and GIF images, and MP4, QuickTime and WebM videos."


class DecoderFailed(AssetError):
    """The process that decodes media was stopped by its limits, or died of a file."""

    code = "DECODER_FAILED"
    default_hint = "The file may be hostile or damaged; nothing else was harmed."


class DecodersBusy(AssetError):
    """All processes that decode media have been at work on other files for a while."""

    code = "DECODERS_BUSY"
    default_hint = "It is tried again by itself. LONGTAKE_DECODERS says how many there are."


class ResultNotCopied(AssetError):
    """A result could not be copied to our storage this time."""

    code = "RESULT_NOT_COPIED"


class SourceGone(ResultNotCopied):
    """The provider's address of a result has ended, or its file is not there."""

    code = "SOURCE_GONE"


class SourceUnknown(ResultNotCopied):
    """The provider could not be asked for a new address of a result."""

    code = "SOURCE_UNKNOWN"


class AssetGone(AssetError):
    """The asset exists, but its file is gone."""

    code = "ASSET_GONE"


class TooManyImports(AssetError):
    """As many files are being brought in as one user may have under way; `limit` says how many that are."""

    code = "IMPORTS_TOO_MANY"
    default_hint = "GET /v1/assets?role=import&state=pending lists them; wait until some are here."


class ImportFileInvalid(AssetError):
    """A file that lists what to bring in cannot be understood at all."""

    code = "IMPORT_FILE_INVALID"
    default_hint = "It is CSV in UTF-8 with a header: url, and if you like title and kind (image or video)."


class LinkInvalid(AssetError):
    """The signed link has expired, or was changed."""

    code = "LINK_INVALID"
    default_hint = "Ask for the task or asset again: its answer has a new link."
