"""The meaning of an error for users: its status, code and message. REST, the shell and the pages read it here.

`meaning` reads the meaning of an error of the domain from its category (`identity.error_categories.Category`), and has
a table of the errors that have no category, because libraries raise them, or rooms that know no users. `endpoint_error`
does the same for a fault of an endpoint's server, in the words of the Transfer API.

ApiError(status, code, message)
    RequestTooLarge  the body or the document is longer than allowed
    TooManyRequests  fair use: the answer says after how many seconds the client may try again
    Unavailable      the service is too busy at present
"""

from __future__ import annotations

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, UnreadablePostError
from redis.exceptions import RedisError

from identity.error_categories import CategorizedError
from identity.gsi.errors import UntrustedError
from identity.gsi.name_parsing import BadNameError
from transferapi.outages.connection_limits import SQLSTATE, is_full

from .gridftp.faults import Fault, FaultError, Kind
from .sharing.confinement import LeadsOutError


class ApiError(Exception):
    """An error with its status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message


class RequestTooLarge(ApiError):  # noqa: N818 - named as on the wire
    def __init__(self, message: str) -> None:
        super().__init__(413, "ClientError.RequestTooLarge", message)


class TooManyRequests(ApiError):  # noqa: N818
    """retry_after: seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(429, "ClientError.TooManyRequests", message)
        self.retry_after = retry_after


class Unavailable(ApiError):  # noqa: N818
    def __init__(self, message: str) -> None:
        super().__init__(503, "ServiceUnavailable", message)


#: PostgreSQL or Redis is away or has too much to do; and the text for users.
AWAY = (InterfaceError, OperationalError, RedisError)
BUSY = "The service is busy or restarts; try again"
#: The same where PostgreSQL allows no further connection: an operator has something to change.
NO_CONNECTION = (
    f"The service has no free connection to its database (SQLSTATE {SQLSTATE}); try again, or inform its operator"
)
_CERTIFICATE = "The client certificate is not accepted: {error.reason}"
#: Errors without a category: status, code and message.
_OTHERS: dict[tuple[type[Exception], ...], tuple[int, str, str]] = {
    (UntrustedError, BadNameError): (400, "ClientError.BadRequest", _CERTIFICATE),
    # Raised by Django, for example for more query parameters than it reads.
    (SuspiciousOperation,): (400, "ClientError.BadRequest", "The request is malformed"),
    (UnreadablePostError,): (400, "ClientError.BadRequest", "The request ended before its body did"),
    # Raised by DRF for a `format` that does not exist.
    (Http404,): (404, "ClientError.NotFound", "There is no such resource in this API"),
    AWAY: (503, "ServiceUnavailable", BUSY),
}


def meaning(error: Exception, request_name: str) -> tuple[int, str, str]:
    """Status, code and message. request_name: by it an operator finds the request in the logs."""
    if isinstance(error, ApiError):
        return error.status, error.code, error.message
    if isinstance(error, CategorizedError) and error.category is not None:
        return error.category.status, error.code or error.category.code, _shown(error.full_message)
    for kinds, (status, code, template) in _OTHERS.items():
        if isinstance(error, kinds):
            return status, code, NO_CONNECTION if is_full(error) else template.format(error=error)
    if isinstance(error, FaultError):
        return 502, "ExternalError", _shown(error.fault.advice or error.fault.kind)
    return 500, "InternalError", f"The service failed; give its operator this request id: {request_name}"


#: The last part of the code, after `ExternalError.DirListingFailed` or another family, by the kind of the fault.
_SUFFIXES: dict[Kind, str] = {
    Kind.AGENT_AWAY: ".NotConnected",
    Kind.AGENT_PAUSED: ".Paused",
    Kind.PERMISSION_DENIED: ".PermissionDenied",
    Kind.NOT_A_DIRECTORY: ".NotDirectory",
    Kind.IS_A_DIRECTORY: ".IsDirectory",
    Kind.PATH_EXISTS: ".Exists",
    Kind.AUTH: ".LoginFailed",
    Kind.NO_CREDENTIALS: ".LoginFailed",
    Kind.GSI_DN_MISMATCH: ".ServerMismatch",
    Kind.HOST_KEY_CHANGED: ".ServerMismatch",
    Kind.INVALID_SERVICE_CREDENTIAL: ".ServerNotTrusted",
    Kind.CONNECT_FAILED: ".ConnectFailed",
    Kind.TIMEOUT: ".Timeout",
    Kind.LIMIT_EXCEEDED: ".SizeLimit",
    Kind.UNSUPPORTED: ".Unsupported",
    Kind.NO_SPACE_LEFT: ".NoSpaceLeft",
    Kind.QUOTA_EXCEEDED: ".QuotaExceeded",
}
#: Faults with their own status, code and first words of the message, by the operation.
_SPECIAL: dict[tuple[str, Kind], tuple[int, str, str]] = {
    ("StatFailed", Kind.FILE_NOT_FOUND): (404, "NotFound", "Path not found, "),
    ("StatFailed", Kind.PERMISSION_DENIED): (403, "EndpointPermissionDenied", "Denied by endpoint, "),
}


def endpoint_error(error: FaultError, family: str, endpoint: str, servers: str) -> ApiError:
    """The answer for a fault of an endpoint. family: the operation, such as "DirListingFailed".

    Clients do not try again after a code with "ExternalError" in it; the service has tried again already.
    """
    fault = error.fault
    message = _endpoint_message(fault, family, endpoint, servers)
    if isinstance(error, LeadsOutError):
        return ApiError(403, "EndpointPermissionDenied", message)
    if special := _SPECIAL.get((family, fault.kind)):
        status, code, prefix = special
        return ApiError(status, code, prefix + message)
    if fault.kind is Kind.FILE_NOT_FOUND:
        return ApiError(404, "ClientError.NotFound", message)
    if fault.kind is Kind.INVALID_PATH_NAME:
        return ApiError(400, "ClientError.BadRequest", message)
    return ApiError(502, f"ExternalError.{family}{_SUFFIXES.get(fault.kind, '')}", message)


def _endpoint_message(fault: Fault, family: str, endpoint: str, servers: str) -> str:
    """Several lines, as the Globus Transfer API has them; scripts read them."""
    word = "list" if family == "DirListingFailed" else family.removesuffix("Failed").lower()
    lines = [f"Error ({word})", f"Endpoint: {endpoint}", f"Server: {servers}"]
    lines.append(f"Message: {fault.advice or fault.kind}")
    if fault.raw:
        lines += ["---", f"Details: {fault.raw}"]
    return _shown("\n".join(lines))


def _shown(text: object) -> str:
    """Text that any JSON parser accepts: escapes stand for octets that are not UTF-8."""
    return str(text).encode("utf-8", "backslashreplace").decode()[:4000]
