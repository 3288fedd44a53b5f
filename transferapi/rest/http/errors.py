"""Every error of the API (4xx, 5xx) is one document, with a code that a program can act on (Transfer API v0.10).

This module chooses the status, code and message of every error: views and services raise, `handle` answers. Errors of
the domain (`identity.error_categories`) are reported by their category. Errors of requests, before the domain sees
them, are ApiErrors:

ApiError(status, code, message)
    BadRequest            the document or a parameter is wrong; the message names the field
    NotFound              the named thing does not exist, or the user may not see it
    ConsentRequired       the token lacks a scope; the answer names it
    RequestTooLarge       the body or the document is longer than allowed
    MethodNotAllowed      the resource has other methods; the message names them
    UnsupportedMediaType  the body has another Content-Type than the route reads
    TooManyRequests       fair use: the answer says after how many seconds the client may try again
    Unavailable           the service is too busy at present
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, UnreadablePostError
from redis.exceptions import RedisError
from rest_framework import exceptions
from rest_framework.response import Response

from endpoints.addresses.gate import LookupFailedError, TargetRefusedError
from endpoints.connect.errors import AgentRefusedError, SetupKeyError
from endpoints.errors import (
    BookmarkNotFoundError,
    CredentialRefusedError,
    DelegationUnknownError,
    EndpointDeletedError,
    EndpointNotFoundError,
    FieldNotSupportedError,
    FileTooLargeError,
    NoFileError,
    NotActivatedError,
    OperationPausedError,
    PathNotPermittedError,
    StepUpRequiredError,
    SymlinkRefusedError,
    UploadBusyError,
    UploadOffsetError,
)
from endpoints.gridftp.faults import Fault, FaultError, Kind
from endpoints.registry import canonical_name
from endpoints.sharing.confinement import LeadsOutError
from identity.certificate_subjects import SubjectNotProvenError
from identity.error_categories import CategorizedError, Category, flaw_of
from identity.gsi.errors import UntrustedError
from identity.gsi.name_parsing import BadNameError
from identity.issuers.myproxy import MyProxyError
from identity.issuers.oauth_errors import OAuthError
from identity.vault.errors import CredentialUnusableError, SecretTooLargeError, VaultKeyNotConfiguredError
from transferapi.outages.connection_limits import SQLSTATE, is_full
from transferapi.tasks.errors import (
    NoCredentialError,
    NothingToConfirmError,
    OwnerNotFoundError,
    RequestError,
    TaskCompleteError,
    TaskNotCompleteError,
)
from transferapi.tasks.options import NOT_SUPPORTED
from transferapi.timers.errors import TimerEndedError, TimerHeldError

log = logging.getLogger(__name__)

#: How a program shows its token (RFC 6750, section 2.1).
TOKEN_HEADER = "the header Authorization: Bearer TOKEN"  # noqa: S105 - no token

#: The oldest clients recognize an error by this header alone.
ERROR_HEADER = "X-Transfer-API-Error"


class ApiError(Exception):
    """An error with its status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message


class BadRequest(ApiError):  # noqa: N818 - named as on the wire
    def __init__(self, message: str, code: str = "ClientError.BadRequest") -> None:
        super().__init__(400, code, message)


class NotFound(ApiError):  # noqa: N818
    def __init__(self, message: str, code: str = "ClientError.NotFound") -> None:
        super().__init__(404, code, message)


class ConsentRequired(ApiError):  # noqa: N818
    """Clients fetch a token for `scope` and try again."""

    def __init__(self, scope: str) -> None:
        super().__init__(403, "ConsentRequired", f"The token does not allow this: it lacks the scope {scope}")
        self.scope = scope


class RequestTooLarge(ApiError):  # noqa: N818
    def __init__(self, message: str) -> None:
        super().__init__(413, "ClientError.RequestTooLarge", message)


class UnsupportedMediaType(ApiError):  # noqa: N818
    def __init__(self, message: str) -> None:
        super().__init__(415, "ClientError.UnsupportedMediaType", message)


class MethodNotAllowed(ApiError):  # noqa: N818
    """allowed: the methods of the resource."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        names = [name for name in allowed if name not in ("HEAD", "OPTIONS")]
        message = f"{method} is not possible here; this resource has {', '.join(names)}"
        super().__init__(405, "ClientError.MethodNotAllowed", message)


class TooManyRequests(ApiError):  # noqa: N818
    """retry_after: seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(429, "ClientError.TooManyRequests", message)
        self.retry_after = retry_after


class Unavailable(ApiError):  # noqa: N818
    def __init__(self, message: str) -> None:
        super().__init__(503, "ServiceUnavailable", message)


def request_id(request: Any) -> str:
    """A short name for this request, for answers and logs. It is made at the first call."""
    django_request = getattr(request, "_request", request)
    if not hasattr(django_request, "waybill_request_id"):
        django_request.waybill_request_id = secrets.token_urlsafe(7)
    return str(django_request.waybill_request_id)


def set_request_id(request: Any, name: str) -> None:
    """Before the first call of `request_id`: the name that a trusted front server gave this request."""
    request.waybill_request_id = name


def resource(request: Any) -> str:
    """The path below the version, as documents name it, without characters that are invalid in JSON or a log."""
    path = str(request.path).removeprefix("/v0.10")
    return path.encode("utf-8", "backslashreplace").decode()[:2000]


def document(request: Any, code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message, "request_id": request_id(request), "resource": resource(request)}


#: Status and code of an error of the domain, by its category.
_CATEGORIES: dict[Category, tuple[int, str]] = {
    Category.INVALID: (400, "ClientError.BadRequest"),
    Category.PERMISSION_DENIED: (403, "PermissionDenied"),
    Category.NOT_FOUND: (404, "ClientError.NotFound"),
    Category.EXISTS: (409, "Exists"),
    Category.CONFLICT: (409, "Conflict"),
    Category.LIMIT_EXCEEDED: (409, "ClientError.LimitExceeded"),
    Category.TOO_MANY_REQUESTS: (429, "ClientError.TooManyRequests"),
    Category.INTERNAL: (500, "InternalError"),
    # A status after which clients do not try again.
    Category.NOT_CONFIGURED: (501, "ServiceError.NotConfigured"),
    Category.EXTERNAL: (502, "ExternalError"),
}

#: Codes of errors that do not have the code of their category; the status is that of the category. Formats of
#: `str.format` with the error and its name for programs. The first row that fits counts.
_CODES: dict[type[CategorizedError], str] = {
    EndpointNotFoundError: "EndpointNotFound",
    EndpointDeletedError: "EndpointDeleted",
    BookmarkNotFoundError: "BookmarkNotFound",
    OwnerNotFoundError: "UserNotFound",
    FieldNotSupportedError: NOT_SUPPORTED,
    RequestError: "{error.code}",
    StepUpRequiredError: "AuthorizationRequired",
    PathNotPermittedError: "EndpointPermissionDenied",
    SymlinkRefusedError: "EndpointPermissionDenied",
    FileTooLargeError: "ClientError.FileTooLarge",
    NoFileError: "ClientError.NotAFile",
    UploadOffsetError: "UploadOffset",
    UploadBusyError: "UploadBusy",
    SubjectNotProvenError: "ClientError.SubjectNotProven",
    TaskNotCompleteError: "TaskNotComplete",
    TaskCompleteError: "TaskComplete",
    NothingToConfirmError: "NothingToConfirm",
    TimerEndedError: "TimerEnded",
    TimerHeldError: "TimerHeld",
    NoCredentialError: "NoCredException",
    NotActivatedError: "ClientError.ActivationRequired",
    CredentialUnusableError: "ClientError.ActivationRequired.{flaw}",
    DelegationUnknownError: "ClientError.ActivationExpired",
    CredentialRefusedError: "ClientError.CredentialRefused.{error.flaw}",
    SecretTooLargeError: "ClientError.CredentialRefused.TooLarge",
    VaultKeyNotConfiguredError: "ServiceError.VaultKeyNotConfigured",
    MyProxyError: "ExternalError.MyProxy.{flaw}",
    OAuthError: "ExternalError.OAuth.{flaw}",
    SetupKeyError: "ClientError.{flaw}",
    AgentRefusedError: "ClientError.AgentRefused.{error.code}",
    LookupFailedError: "ExternalError.LookupFailed",
    TargetRefusedError: "ExternalError.ConnectFailed",
}

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

#: The names of operations in codes, by the flag of the pause rule that stops them.
_OPERATIONS = {
    "pause_ls": "DirListingFailed",
    "pause_mkdir": "MkdirFailed",
    "pause_rename": "RenameFailed",
    "pause_symlink": "SymlinkFailed",
    "pause_task_transfer_read": "DownloadFailed",
    "pause_task_transfer_write": "UploadFailed",
}


def _categorized(error: CategorizedError, category: Category) -> tuple[int, str, str]:
    status, code = _CATEGORIES[category]
    if isinstance(error, OperationPausedError):
        return status, *_paused(error)
    template = next((own for kind, own in _CODES.items() if isinstance(error, kind)), code)
    flaw = flaw_of(error).removeprefix("MyProxy").removeprefix("OAuth")
    return status, template.format(error=error, flaw=flaw), _shown(error.message)


def _paused(error: OperationPausedError) -> tuple[str, str]:
    """Code and message. The endpoint has not failed, and a client that tries again has no success: it sees the code."""
    name = canonical_name(error.endpoint)
    lines = [f"Endpoint: {name} ({error.endpoint.pk})", f"Message: {error.message}"]
    lines += ["---", *(f"Details: {message}" for message in error.messages)] if error.messages else []
    return f"ExternalError.{_OPERATIONS[error.operation]}.GCPaused", _shown("\n".join(lines))


_STATUS_CODES = {
    400: "ClientError.BadRequest",
    401: "ClientError.AuthenticationFailed",
    403: "PermissionDenied",
    404: "ClientError.NotFound",
    405: "ClientError.MethodNotAllowed",
    406: "ClientError.NotAcceptable",
    413: "ClientError.RequestTooLarge",
    415: "ClientError.UnsupportedMediaType",
    429: "ClientError.TooManyRequests",
}


_ADVICE = {
    406: "Only JSON and XML go out: accept application/json or application/xml",
    415: "Only JSON and XML come in: send a document, with Content-Type: application/json or application/xml",
}

#: Seconds after which a client tries again, where the database was away or the service was busy.
RETRY_AFTER = 5


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler. It answers every exception, and shows no internals of the service."""
    request = context["request"]
    if isinstance(error, exceptions.MethodNotAllowed):
        error = MethodNotAllowed(str(request.method), context["view"].allowed_methods)
    status, headers, body = answer(error, request)
    ours = error if status in (500, 503) else None
    log.log(
        logging.ERROR if ours else logging.INFO,
        "request %s: %s %s: %d %s",
        request_id(request), request.method, quote(resource(request)), status, body["code"],
        exc_info=ours,
    )  # fmt: skip
    return Response(body, status=status, headers=headers)


def answer(error: Exception, request: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and document. request: anything with a path."""
    status, code, message = meaning(error, request_id(request))
    if isinstance(error, EndpointNotFoundError):
        message += _spelling(str(error.ref), request)
    headers = {ERROR_HEADER: code} | headers_of(error, status)
    body: dict[str, Any] = document(request, code, message)
    if isinstance(error, ConsentRequired):
        body["required_scopes"] = [error.scope]
    if isinstance(error, StepUpRequiredError):
        body["authorization_parameters"] = error.authorization_parameters
        headers["WWW-Authenticate"] = error.challenge
    return status, headers, body


def _spelling(name: str, request: Any) -> str:
    """How to write the name of an endpoint in an address, where it was probably written wrongly; else ""."""
    here = str(request.path)
    if f"/endpoint/{name}" not in here:
        return ""
    if "%23" in name:
        return ". It was encoded twice: write %23 for the # of a name, and not %2523"
    # A client sends nothing of an address from the # on.
    if not here.endswith(f"/endpoint/{name}") or "#" in name or _is_uuid(name):
        return ""
    return f". In an address, write %23 for the # of a name: /endpoint/{quote(name, errors='replace')}%23NAME"


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def headers_of(error: Exception, status: int) -> dict[str, str]:
    """How a client signs in, and when it may try again."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in (429, 503):
        headers["Retry-After"] = str(getattr(error, "retry_after", RETRY_AFTER))
    return headers


def meaning(error: Exception, request_name: str) -> tuple[int, str, str]:
    """Status, code and message. request_name: by it an operator finds the request in the logs."""
    if isinstance(error, ApiError):
        return error.status, error.code, error.message
    if isinstance(error, CategorizedError) and error.category is not None:
        return _categorized(error, error.category)
    for kinds, (status, code, template) in _OTHERS.items():
        if isinstance(error, kinds):
            return status, code, NO_CONNECTION if is_full(error) else template.format(error=error)
    if isinstance(error, FaultError):
        return 502, "ExternalError", _shown(error.fault.advice or error.fault.kind)
    if isinstance(error, exceptions.NotAuthenticated):
        return 401, _STATUS_CODES[401], f"You are not signed in. Send {TOKEN_HEADER}"
    if isinstance(error, exceptions.APIException):
        code = _STATUS_CODES.get(error.status_code, "ClientError")
        return error.status_code, code, _ADVICE.get(error.status_code, str(error.detail))
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
    """The answer for a fault of an endpoint.

    family: a key of `_WORDS`. Clients do not try again after a
    code with "ExternalError" in it; the service has tried again already.
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
