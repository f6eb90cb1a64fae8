"""Errors of the catalogue: titles, and posters that could not be fetched, by what went wrong."""

from longtake.errors.base import LongtakeError


class CatalogueError(LongtakeError):
    """Something about a title or its poster."""

    code = "CATALOGUE_ERROR"


class InvalidTitle(CatalogueError):
    """A title that cannot be kept as it is."""

    code = "TITLE_INVALID"
    default_hint = "A title has a Bangumi id or a name in some language; docs/catalogue.md describes its fields."


class PosterError(CatalogueError):
    """A poster could not be fetched."""

    code = "POSTER_ERROR"
    #: Asking again within minutes would not help.
    lasting = True


class PosterUnreachable(PosterError):
    """The request failed: no address, no connection, no answer, or one that broke off."""

    code = "POSTER_UNREACHABLE"
    default_hint = "It is tried again by itself."
    lasting = False


class PosterStatus(PosterError):
    """The server answered with a status that is no picture."""

    code = "POSTER_HTTP_STATUS"
    default_hint = "It is asked for again later; give the title another poster if the address is wrong."

    def __init__(
        self, message: str, hint: str | None = None, *, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint, http_status=status)
        self.status = status
        #: Seconds that the server asked us to wait.
        self.retry_after = retry_after

    @property
    def lasting(self) -> bool:  # type: ignore[override]
        """Say whether the address itself is wrong: a busy or broken server may be well again soon."""
        return self.status not in {408, 425, 429} and self.status < 500  # noqa: PLR2004 - the range of server errors


class PosterBroken(PosterError):
    """What came is not a whole picture of a kind that we keep."""

    code = "POSTER_BROKEN"
    default_hint = "It is not kept, and asked for again later."


class PosterIo(PosterError):
    """Our own storage did not do what it was asked; which operation, and on which object, is part of the error."""

    code = "POSTER_IO"
    default_hint = "It is tried again by itself; `longtake alerts list` and the log say more about the storage."
    lasting = False

    def __init__(self, message: str, hint: str | None = None, *, operation: str = "", path: str = "") -> None:
        super().__init__(message, hint, operation=operation, path=path)


class PosterPathInvalid(PosterError):
    """Neither an http(s) address nor the path of a poster of ours."""

    code = "POSTER_PATH_INVALID"
    default_hint = "Give an https:// or http:// address, or /posters/FILE for a poster that is already here."
