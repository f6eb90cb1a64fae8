"""Errors of media files."""

from longtake.errors import LongtakeError


class AssetError(LongtakeError):
    """A media file cannot be accepted or served."""

    code = "ASSET_ERROR"


class MediaRefused(AssetError):
    """The file is not an image or video in a supported format."""

    code = "MEDIA_REFUSED"
    http_status = 422
    default_hint = "Supported are PNG, JPEG, WebP and GIF images, and MP4, QuickTime and WebM videos."


class DecoderFailed(AssetError):
    """The process that decodes media reached its limits, or crashed while it read a file."""

    code = "DECODER_FAILED"
    default_hint = "The file may be damaged or malicious. Nothing else was affected."


class DecodersBusy(AssetError):
    """All decoder processes stayed busy with other files for too long."""

    code = "DECODERS_BUSY"
    http_status = 503
    default_hint = "Longtake tries again automatically. LONGTAKE_DECODERS sets how many decoders there are."
