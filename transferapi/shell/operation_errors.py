"""The one place where an operation on files becomes an error of the shell, with its cause on the third line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from django.conf import settings

from endpoints import endpoint_view
from endpoints.addresses.gate import TargetRefusedError
from endpoints.error_meanings import endpoint_error, meaning
from endpoints.errors import NotActivatedError, PathNotPermittedError, TooManyWaitingError
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.models import User
from transferapi.tasks.errors import NoCredentialError

from .context import Context
from .errors import InterruptedByUserError, OperationError, ShellError

P = ParamSpec("P")
T = TypeVar("T")

MISSING, DENIED, EXISTS = "No such file or directory", "Permission denied", "Path already exists"
UNREACHABLE, REFUSED = "Could not connect to server", "Fatal FTP Response"
#: The cause by the kind of the fault; others are REFUSED.
CAUSES: dict[Kind, str] = {
    Kind.FILE_NOT_FOUND: MISSING,
    Kind.NOT_A_DIRECTORY: MISSING,
    Kind.PERMISSION_DENIED: DENIED,
    Kind.AUTH: DENIED,
    Kind.NO_CREDENTIALS: DENIED,
    Kind.PATH_EXISTS: EXISTS,
    Kind.DIRECTORY_NOT_EMPTY: EXISTS,
    Kind.AGENT_AWAY: UNREACHABLE,
    Kind.AGENT_PAUSED: UNREACHABLE,
    Kind.CONNECT_FAILED: UNREACHABLE,
    Kind.CONNECTION_BROKEN: UNREACHABLE,
    Kind.CONNECTION_RESET: UNREACHABLE,
    Kind.TIMEOUT: UNREACHABLE,
    Kind.GSI_DN_MISMATCH: UNREACHABLE,
    Kind.HOST_KEY_CHANGED: UNREACHABLE,
    Kind.INSECURE_SERVER: UNREACHABLE,
    Kind.INVALID_SERVICE_CREDENTIAL: UNREACHABLE,
}
#: Seconds for which an operation waits for its turn, and between two attempts.
RETRY_SECONDS, PAUSE = 30.0, 0.25


@dataclass(frozen=True, slots=True)
class FailedOperation:
    """An operation on an endpoint. command: as the protocol spells it. family: as in the codes of REST."""

    endpoint: str
    path: str
    command: str
    family: str


#: A function of `endpoints.operations`, from its second argument on.
Function = Callable[Concatenate[User, str, P], T]


def operate(context: Context, asked: FailedOperation, function: Function[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function(user, endpoint, ...)`; wait where too many others wait for servers just now.

    Raises OperationError, and the errors of the function that are no errors of the endpoint's files.
    """
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            work = partial(function, context.user, asked.endpoint, *args, **kwargs)
            return context.call(_attempt, context.user, asked, work)
        except TooManyWaitingError:
            if time.monotonic() > deadline:
                raise
        if context.pause(PAUSE) is not None:
            raise InterruptedByUserError


def _attempt(user: User, asked: FailedOperation, work: Callable[[], T]) -> T:
    try:
        return work()
    except FaultError as error:
        name, servers = endpoint_view.in_words(user, asked.endpoint)
        fault = error.fault
        code = endpoint_error(error, asked.family, name, servers).code
        about = [f"Endpoint: {name}", f"Server: {servers}", fault.advice, fault.raw]
        cause = CAUSES.get(fault.kind, REFUSED)
        raise _failure(asked, cause, "\n".join(filter(None, about)), code) from None
    except (PathNotPermittedError, TargetRefusedError) as error:
        cause = DENIED if isinstance(error, PathNotPermittedError) else UNREACHABLE
        raise _failure(asked, cause, error.message, meaning(error, "")[1]) from None
    except NotActivatedError as error:
        raise not_activated(user, error) from None


def _failure(asked: FailedOperation, cause: str, details: str, code: str) -> OperationError:
    message = f"{asked.endpoint}:{asked.path}: {cause}"
    return OperationError(message, f"{asked.command} {asked.path}", cause, details, code)


def not_activated(user: User, error: NotActivatedError | NoCredentialError) -> ShellError:
    """The refusal for want of a credential, with the command and the address that mend it."""
    endpoint, code = error.endpoint, meaning(error, "")[1]
    if endpoint.host_id is not None and endpoint.owner_id != user.pk:
        return ShellError(error.reason, code)
    place = endpoint.host or endpoint
    return ShellError(f"{error.reason} {ways_to_activate(place)}", code)


def ways_to_activate(endpoint: Endpoint) -> str:
    """The command and the address by which a user gives a credential."""
    command = f"run 'endpoint-activate {canonical_name(endpoint)}' at a terminal (ssh -t)"
    return f"To give one, {command}, or open {activation_page(endpoint)}"


def activation_page(endpoint: Endpoint) -> str:
    return f"{settings.PUBLIC_URL}/endpoints/{endpoint.pk}/activate"
