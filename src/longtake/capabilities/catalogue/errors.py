"""Errors of titles and posters."""

from longtake.errors import LongtakeError


class CatalogueError(LongtakeError):
    """A title or its poster has a problem."""

    code = "CATALOGUE_ERROR"


class InvalidTitle(CatalogueError):
    """A field of the title is wrong, or it has neither a Bangumi id nor a name."""

    code = "TITLE_INVALID"
    http_status = 422
    default_hint = "A title has a Bangumi id or a name in some language; docs/catalogue.md describes its fields."


class PosterError(CatalogueError):
    """A poster could not be fetched."""

    code = "POSTER_ERROR"
    #: Asking again within minutes would not help.
    lasting = True


class PosterUnreachable(PosterError):
    """The request for the poster failed: no address, no connection, no answer, or an incomplete one."""

    code = "POSTER_UNREACHABLE"
    default_hint = "Longtake tries again automatically."
    lasting = False


class PosterStatus(PosterError):
    """The poster's server answered with a status that carries no picture."""

    code = "POSTER_HTTP_STATUS"
    default_hint = "Longtake tries again later. If the address is wrong, give the title another poster."

    def __init__(
        self, message: str, hint: str | None = None, *, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint, http_status=status)
        self.status = status
        #: Seconds that the server asked us to wait.
        self.retry_after = retry_after
        # The address itself is wrong: a busy or broken server may be well again soon.
        self.lasting = status not in {408, 425, 429} and status < 500  # noqa: PLR2004 - the range of server errors


class PosterBroken(PosterError):
    """The response is not a complete picture in a supported format."""

    code = "POSTER_BROKEN"
    default_hint = "Longtake discards the response and tries again later."


class PosterIo(PosterError):
    """Longtake's own storage failed; the error names the operation and the object's path."""

    code = "POSTER_IO"
    default_hint = "Longtake tries again automatically. `longtake alerts list` and the log say more about the storage."
    lasting = False


class PosterPathInvalid(PosterError):
    """The poster is neither an http(s) address nor the path of a stored poster."""

    code = "POSTER_PATH_INVALID"
    http_status = 422
    default_hint = "Give an https:// or http:// address, or /posters/FILE for a stored poster."
