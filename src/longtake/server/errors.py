"""Errors of servers, applications and operators' actions."""

from longtake.errors import LongtakeError


class InternalSecretRefused(LongtakeError):
    """The X-Internal-Secret header is missing, or does not match this server's secret."""

    code = "INTERNAL_SECRET_REFUSED"
    http_status = 401
    default_hint = "Send the value of the server's LONGTAKE_INTERNAL_SECRET."


class TooManyProcessings(LongtakeError):
    """This server is already processing the queue for the maximum number of requests."""

    code = "PROCESSINGS_TOO_MANY"
    http_status = 429
    default_hint = "The running requests do the same work. Send yours again when one of them has answered."


class ServerError(LongtakeError):
    """The server could not be started, or could not be asked."""

    code = "SERVER_ERROR"


class ServerUnreachable(ServerError):
    """The server did not start, or does not answer at its address."""

    code = "SERVER_UNREACHABLE"
    exit_code = 3
    default_hint = "Read the server's log, or start a server with `longtake serve`."


class CannotListen(ServerError):
    """The server cannot listen on this address or port."""

    code = "LISTEN_FAILED"
    exit_code = 2
    default_hint = "Choose another with --host and --port, or stop the program that uses it."


class ProcessFailed(ServerError):
    """A part of the process, such as its worker, stopped unexpectedly. The next worker rescues its jobs."""

    code = "PROCESS_FAILED"
    default_hint = "This should not happen. The log has the details. Start the process again: no job is lost."


class InvalidApplication(LongtakeError):
    """The function that --app names cannot be loaded, or declares something that cannot work."""

    code = "APP_INVALID"
    exit_code = 2
    default_hint = "Example: --app shop.jobs:register, where register(application) calls application.add(kinds=[…])."
