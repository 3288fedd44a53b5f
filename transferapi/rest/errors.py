"""Every error of the API is one document, with a code that a program can act on (Transfer API v0.10).

ApiError(status, code, message)
    BadRequest          the document or a parameter is wrong; names the field
    NotFound            what is named does not exist, or not for this user
    ConsentRequired     the token is for something else; names the scope that it lacks
    TooManyRequests     fair use: says in how many seconds the next one is welcome
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from rest_framework import exceptions
from rest_framework.response import Response

from endpoints.confinement import LeadsOutError
from endpoints.errors import (
    BookmarkExistsError,
    BookmarkInvalidError,
    BookmarkNotFoundError,
    CredentialRefusedError,
    DelegationUnknownError,
    EndpointDeletedError,
    EndpointExistsError,
    EndpointInvalidError,
    EndpointNotFoundError,
    FieldNotSupportedError,
    NotActivatedError,
    NotPermittedError,
    NotSharedError,
    OperationPausedError,
    OwnerStaysError,
    PathNotPermittedError,
    PauseRuleNotEditableError,
    PauseRuleNotFoundError,
    RequirementError,
    RoleExistsError,
    RoleNotFoundError,
    RuleExistsError,
    RuleNotFoundError,
    ServerExistsError,
    ServerNotFoundError,
    SymlinkRefusedError,
    TooManyBookmarksError,
    TooManyEndpointsError,
    TooManyPauseRulesError,
    TooManyRolesError,
    TooManyRulesError,
    TooManyWaitingError,
    flaw_of,
)
from endpoints.gate import LookupFailedError, TargetRefusedError
from endpoints.gridftp.faults import Fault, FaultError, Kind
from endpoints.gridftp.trust import UntrustedError
from endpoints.gridftp.written_names import BadNameError
from endpoints.registry import canonical_name
from identity.certificates import (
    SubjectInvalidError,
    SubjectNotFoundError,
    SubjectNotProvenError,
    SubjectTakenError,
    TooManySubjectsError,
)
from identity.errors import (
    CredentialGoneError,
    SecretTooLargeError,
    TooManyCredentialsError,
    VaultError,
    VaultKeyMissingError,
    VaultKeyNotConfiguredError,
    VaultSealBrokenError,
)
from identity.group_errors import GroupForbiddenError, GroupInvalidError, GroupNotFoundError, TooManyGroupsError
from identity.myproxy import MyProxyError
from identity.oauth_errors import OAuthError
from identity.provider.errors import (
    ClientInvalidError,
    ClientNotFoundError,
    TooManyClientsError,
    TooManyRegistrationsError,
)
from identity.tokens import TokenNotFoundError, TooManyTokensError
from transferapi.tasks.errors import (
    NoCredentialError,
    OwnerNotFoundError,
    RequestError,
    TaskCompleteError,
    TaskNotCompleteError,
    TaskNotFoundError,
    TasksNotPermittedError,
    TooManyPendingError,
    TooManyWebhooksError,
    TooMuchError,
    WebhookDisabledError,
    WebhookNotFoundError,
)
from transferapi.timers.errors import TimerEndedError, TimerInvalidError, TimerNotFoundError, TooManyTimersError

from . import xml_documents

log = logging.getLogger(__name__)

_XML = ("application/xml", "text/xml")

#: The oldest clients tell an error by this header alone.
ERROR_HEADER = "X-Transfer-API-Error"


class ApiError(Exception):
    """An error with its place on the wire."""

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
        super().__init__(403, "ConsentRequired", f"The token is not good for this: it lacks the scope {scope}")
        self.scope = scope


class TooManyRequests(ApiError):  # noqa: N818
    """retry_after: seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(429, "ClientError.TooManyRequests", message)
        self.retry_after = retry_after


def request_id(request: Any) -> str:
    """A short name for this request, for answers and logs; made when first asked for."""
    django_request = getattr(request, "_request", request)
    if not hasattr(django_request, "waybill_request_id"):
        django_request.waybill_request_id = secrets.token_urlsafe(7)
    return str(django_request.waybill_request_id)


def resource(request: Any) -> str:
    """The path below the version, as documents name it; free of what JSON or a log could stumble over."""
    path = str(request.path).removeprefix("/v0.10")
    return path.encode("utf-8", "backslashreplace").decode()[:2000]


def document(request: Any, code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message, "request_id": request_id(request), "resource": resource(request)}


def _unavailable(_: Exception) -> tuple[int, str, str]:
    """The database is away, restarts, or has too much to do. Clients try again after this status."""
    return 503, "ServiceUnavailable", "The service is busy or restarts; try again"


def _external(family: str, ours: set[str]) -> Callable[[Any], tuple[int, str, str]]:
    """What a server that gives credentials said: 400 where the user can mend it, by the name of the error."""

    def meaning(error: Any) -> tuple[int, str, str]:
        flaw = flaw_of(error).removeprefix(family)
        return 400 if flaw in ours else 502, f"ExternalError.{family}.{flaw}", _shown(error.reason)

    return meaning


def _activate_anew(error: Any) -> tuple[int, str, str]:
    return 400, f"ClientError.ActivationRequired.{flaw_of(error)}", error.reason


def _not_proven(subject: str) -> str:
    return (
        f"You have not shown that {_shown(subject)} is yours: send this with that certificate (and your token), "
        "or activate an endpoint with it first"
    )


#: What an operation is called, by the flag of the pause rule that stops it.
_OPERATIONS = {
    "pause_ls": "DirListingFailed",
    "pause_mkdir": "MkdirFailed",
    "pause_rename": "RenameFailed",
    "pause_symlink": "SymlinkFailed",
}


def _paused(error: Any) -> tuple[int, str, str]:
    """Not the endpoint's failure, so no 502; and nothing that trying again would mend: clients see that by the code."""
    name = canonical_name(error.endpoint)
    lines = [f"Endpoint: {name} ({error.endpoint.pk})", "Message: A manager of the endpoint has paused this"]
    lines += ["---", *(f"Details: {message}" for message in error.messages)] if error.messages else []
    return 409, f"ExternalError.{_OPERATIONS[error.operation]}.GCPaused", _shown("\n".join(lines))


#: Exceptions on the wire: type -> status, code and message. One place, in the order of the trees.
_MEANINGS: dict[type[Exception], Callable[[Any], tuple[int, str, str]]] = {
    EndpointNotFoundError: lambda e: (404, "EndpointNotFound", f"No such endpoint '{_shown(e.ref)}'"),
    EndpointExistsError: lambda e: (409, "Exists", f"An endpoint named '{e.canonical_name}' exists already"),
    FieldNotSupportedError: lambda e: (400, "ClientError.BadRequest.NotSupported", f"{e.field}: {e.reason}"),
    EndpointInvalidError: lambda e: (400, "ClientError.BadRequest", f"{e.field}: {e.reason}"),
    NotPermittedError: lambda e: (403, "PermissionDenied", "You do not have permission for this on this endpoint"),
    PathNotPermittedError: lambda e: (403, "EndpointPermissionDenied", f"No access rule gives you '{_shown(e.path)}'"),
    ServerNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such server '{e.server_id}'"),
    ServerExistsError: lambda e: (409, "Exists", f"The endpoint has the server {e.uri} already"),
    TooManyEndpointsError: lambda e: (409, "ClientError.LimitExceeded", f"A user has at most {e.limit} endpoints"),
    EndpointDeletedError: lambda e: (404, "EndpointDeleted", f"The endpoint '{_shown(e.ref)}' is gone"),
    BookmarkNotFoundError: lambda e: (404, "BookmarkNotFound", f"No such bookmark '{_shown(e.ref)}'"),
    BookmarkExistsError: lambda e: (409, "Exists", f"You have a bookmark named '{_shown(e.name)}' already"),
    BookmarkInvalidError: lambda e: (400, "ClientError.BadRequest", f"{e.field}: {e.reason}"),
    TooManyBookmarksError: lambda e: (409, "ClientError.LimitExceeded", f"A user has at most {e.limit} bookmarks"),
    TimerNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such timer '{_shown(e.ref)}'"),
    TimerInvalidError: lambda e: (400, "ClientError.BadRequest", f"{e.field}: {e.reason}"),
    TimerEndedError: lambda e: (409, "TimerEnded", "The timer has ended; give it a new schedule"),
    TooManyTimersError: lambda e: (409, "ClientError.LimitExceeded", f"A user has at most {e.limit} timers"),
    GroupNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such group '{_shown(e.ref)}'"),
    GroupForbiddenError: lambda e: (403, "PermissionDenied", e.reason),
    GroupInvalidError: lambda e: (400, "ClientError.BadRequest", f"{e.field}: {e.reason}"),
    TooManyGroupsError: lambda e: (409, "ClientError.LimitExceeded", f"You are in {e.limit} groups already"),
    NotSharedError: lambda e: (400, "ClientError.BadRequest", "This is no shared endpoint: it has no access rules"),
    RuleNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such access rule '{_shown(e.ref)}'"),
    RuleExistsError: lambda e: (409, "Exists", f"There is a rule for that principal and the path '{_shown(e.path)}'"),
    TooManyRulesError: lambda e: (409, "ClientError.LimitExceeded", f"A shared endpoint has at most {e.limit} rules"),
    SymlinkRefusedError: lambda e: (403, "EndpointPermissionDenied", "No symbolic links are made on shared endpoints"),
    RoleNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such role '{_shown(e.ref)}'"),
    RoleExistsError: lambda e: (409, "Exists", f"The principal is {e.role} already"),
    OwnerStaysError: lambda e: (409, "Conflict", "The owner of an endpoint stays its administrator"),
    TooManyRolesError: lambda e: (409, "ClientError.LimitExceeded", f"An endpoint has at most {e.limit} roles"),
    PauseRuleNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such pause rule '{_shown(e.ref)}'"),
    PauseRuleNotEditableError: lambda _: (403, "PermissionDenied", "Those who run the host made this pause rule"),
    TooManyPauseRulesError: lambda e: (409, "ClientError.LimitExceeded", f"An endpoint has at most {e.limit} rules"),
    OperationPausedError: _paused,
    TaskNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such task '{_shown(e.ref)}'"),
    OwnerNotFoundError: lambda e: (404, "UserNotFound", f"No such user '{e.user_id}'"),
    TasksNotPermittedError: lambda _: (403, "PermissionDenied", "You do not have permission for this on these tasks"),
    TaskNotCompleteError: lambda e: (409, "TaskNotComplete", "The task is not done yet; cancel it first"),
    TaskCompleteError: lambda e: (409, "TaskComplete", "The task is complete and does not change any more"),
    RequestError: lambda e: (400, e.code, f"{_shown(e.field)}: {e.reason}"),
    TooMuchError: lambda e: (409, e.code, e.reason),
    TooManyPendingError: lambda e: (409, e.code, f"You have {e.limit} tasks that are not done; wait for some"),
    WebhookNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such webhook '{_shown(e.ref)}'"),
    WebhookDisabledError: lambda e: (409, "Conflict", "The webhook is disabled: enable it first"),
    TooManyWebhooksError: lambda e: (409, e.code, f"A user has at most {e.limit} webhooks"),
    NoCredentialError: lambda e: (409, "NoCredException", _shown(e.reason)),
    NotActivatedError: lambda e: (400, "ClientError.ActivationRequired", _shown(e.reason)),
    RequirementError: lambda e: (400, "ClientError.BadRequest", f"{e.field}: {e.reason}"),
    CredentialRefusedError: lambda e: (400, f"ClientError.CredentialRefused.{e.flaw}", _shown(e.reason)),
    DelegationUnknownError: lambda e: (400, "ClientError.ActivationExpired", e.reason),
    TooManyWaitingError: lambda e: (429, "ClientError.TooManyRequests", e.reason),
    TokenNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such token '{_shown(e.ref)}'"),
    TooManyTokensError: lambda e: (409, "ClientError.LimitExceeded", f"A user has at most {e.limit} tokens"),
    SubjectInvalidError: lambda e: (400, "ClientError.BadRequest", f"subject: {e.reason}"),
    SubjectNotProvenError: lambda e: (403, "ClientError.SubjectNotProven", _not_proven(e.subject)),
    SubjectTakenError: lambda e: (409, "Exists", f"The subject {_shown(e.subject)} is registered already"),
    TooManySubjectsError: lambda e: (409, "ClientError.LimitExceeded", f"A user has at most {e.limit} subjects"),
    SubjectNotFoundError: lambda e: (404, "ClientError.NotFound", f"No such certificate subject '{_shown(e.ref)}'"),
    UntrustedError: lambda e: (400, "ClientError.BadRequest", f"The client certificate is not accepted: {e.reason}"),
    BadNameError: lambda e: (400, "ClientError.BadRequest", f"The client certificate is not accepted: {e.reason}"),
    VaultKeyMissingError: _activate_anew,
    VaultSealBrokenError: _activate_anew,
    CredentialGoneError: _activate_anew,
    SecretTooLargeError: lambda e: (400, "ClientError.CredentialRefused.TooLarge", e.reason),
    TooManyCredentialsError: lambda e: (409, "ClientError.LimitExceeded", e.reason),
    # Only the operator can do something about it: a status after which clients do not try again.
    VaultKeyNotConfiguredError: lambda e: (501, "ServiceError.VaultKeyNotConfigured", e.reason),
    VaultError: lambda e: (500, "InternalError", e.reason),
    MyProxyError: _external("MyProxy", {"BadPassphrase", "Input", "LogonRefused", "UnknownUser"}),
    OAuthError: _external("OAuth", {"BadAnswer", "IssuerMismatch", "Refused", "StateMismatch"}),
    ClientNotFoundError: lambda e: (404, "ClientError.NotFound", e.reason),
    ClientInvalidError: lambda e: (400, "ClientError.BadRequest", f"{e.field}: {e.reason}"),
    TooManyClientsError: lambda e: (409, "ClientError.LimitExceeded", e.reason),
    TooManyRegistrationsError: lambda e: (429, "ClientError.TooManyRequests", e.reason),
    # DRF's own, for a `format` that there is none of; and Django's, for more query parameters than it reads.
    Http404: lambda _: (404, "ClientError.NotFound", "There is no such resource in this API"),
    SuspiciousOperation: lambda _: (400, "ClientError.BadRequest", "The request is malformed"),
    UnreadablePostError: lambda _: (400, "ClientError.BadRequest", "The request ended before its body did"),
    InterfaceError: _unavailable,
    OperationalError: _unavailable,
    # Before the class that it is of: only that one says that the service may not connect.
    LookupFailedError: lambda e: (502, "ExternalError.LookupFailed", f"{_shown(e.host)}: {e.reason}"),
    TargetRefusedError: lambda e: (502, "ExternalError.ConnectFailed", f"{_shown(e.host)}: {e.reason}"),
}

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

#: Seconds after which a client of ours asks again when the database was away, or no place was free.
RETRY_AFTER = 5


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: never lets one through, never tells of our insides."""
    request = context["request"]
    status, code, message = _meaning(error, request)
    ours = error if status in (500, 503) else None
    log.log(
        logging.ERROR if ours else logging.INFO,
        "request %s: %s %s: %d %s", request_id(request), request.method, quote(resource(request)), status, code,
        exc_info=ours,
    )  # fmt: skip
    headers = {ERROR_HEADER: code}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        headers["Retry-After"] = str(getattr(error, "retry_after", RETRY_AFTER))
    body: dict[str, Any] = document(request, code, message)
    if isinstance(error, ConsentRequired):
        body["required_scopes"] = [error.scope]
    return Response(body, status=status, headers=headers)


def _meaning(error: Exception, request: Any) -> tuple[int, str, str]:
    if isinstance(error, ApiError):
        return error.status, error.code, error.message
    for kind, meaning in _MEANINGS.items():
        if isinstance(error, kind):
            return meaning(error)
    if isinstance(error, FaultError):
        return 502, "ExternalError", _shown(error.fault.advice or error.fault.kind)
    if isinstance(error, exceptions.APIException):
        code = _STATUS_CODES.get(error.status_code, "ClientError")
        return error.status_code, code, _ADVICE.get(error.status_code, str(error.detail))
    return 500, "InternalError", f"The service failed; tell its operator this request id: {request_id(request)}"


#: What an endpoint's refusal is called below `ExternalError.DirListingFailed` and its like.
_SUFFIXES: dict[Kind, str] = {
    Kind.PERMISSION_DENIED: ".PermissionDenied",
    Kind.NOT_A_DIRECTORY: ".NotDirectory",
    Kind.IS_A_DIRECTORY: ".IsDirectory",
    Kind.PATH_EXISTS: ".Exists",
    Kind.AUTH: ".LoginFailed",
    Kind.NO_CREDENTIALS: ".LoginFailed",
    Kind.GSI_DN_MISMATCH: ".ServerMismatch",
    Kind.INVALID_SERVICE_CREDENTIAL: ".ServerNotTrusted",
    Kind.CONNECT_FAILED: ".ConnectFailed",
    Kind.TIMEOUT: ".Timeout",
    Kind.LIMIT_EXCEEDED: ".SizeLimit",
    Kind.UNSUPPORTED: ".Unsupported",
    Kind.NO_SPACE_LEFT: ".NoSpaceLeft",
    Kind.QUOTA_EXCEEDED: ".QuotaExceeded",
}
#: What has a code and a status of its own, by the operation that met it.
_SPECIAL: dict[tuple[str, Kind], tuple[int, str, str]] = {
    ("StatFailed", Kind.FILE_NOT_FOUND): (404, "NotFound", "Path not found, "),
    ("StatFailed", Kind.PERMISSION_DENIED): (403, "EndpointPermissionDenied", "Denied by endpoint, "),
}


def endpoint_error(error: FaultError, family: str, endpoint: str, servers: str) -> ApiError:
    """What an endpoint said, as an error of the API.

    family: DirListingFailed, StatFailed, MkdirFailed, RenameFailed or SymlinkFailed. Codes with "ExternalError" in
    them are not tried again by the clients, which is right: the service has tried.
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


_WORDS = {
    "DirListingFailed": "list",
    "StatFailed": "stat",
    "MkdirFailed": "mkdir",
    "RenameFailed": "rename",
    "SymlinkFailed": "symlink",
}


def _endpoint_message(fault: Fault, family: str, endpoint: str, servers: str) -> str:
    """Several lines, which people and scripts know from the Transfer API."""
    lines = [f"Error ({_WORDS[family]})", f"Endpoint: {endpoint}", f"Server: {servers}"]
    lines.append(f"Message: {fault.advice or fault.kind}")
    if fault.raw:
        lines += ["---", f"Details: {fault.raw}"]
    return _shown("\n".join(lines))


def _shown(text: object) -> str:
    """Printable in any JSON: octets that are no UTF-8 as escapes."""
    return str(text).encode("utf-8", "backslashreplace").decode()[:4000]


def not_found_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A route that is none (Django's handler404)."""
    return _plain(request, 404, "ClientError.NotFound", "There is no such resource in this API")


def server_error_page(request: HttpRequest) -> HttpResponse:
    """Outside of DRF (Django's handler500)."""
    return _plain(request, 500, "InternalError", "The service failed")


def bad_request_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django itself refuses, such as a Host header that is not ours (handler400)."""
    return _plain(request, 400, "ClientError.BadRequest", "The request is malformed")


def _plain(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    body, headers = document(request, code, message), {ERROR_HEADER: code}
    if "text/html" not in request.headers.get("Accept", "") and (
        request.get_preferred_type(["application/json", *_XML]) in _XML
    ):
        return HttpResponse(
            xml_documents.dumps(body, "error"), status=status, headers=headers, content_type=f"{_XML[0]}; charset=utf-8"
        )
    return JsonResponse(body, status=status, headers=headers)
