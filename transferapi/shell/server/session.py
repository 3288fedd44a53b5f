"""The user of one connection, as commands see it: the services, with the restrictions of the key."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import ParamSpec, TypeVar

from endpoints.permissions import restricted_to
from identity import user_names
from identity.call_origin import Origin, comes_from
from identity.models import User
from identity.sign_in_proof import SignInProof, proven_by
from transferapi.rest.http import rate_limit
from transferapi.rest.http.errors import TooManyRequests
from transferapi.shell.errors import ShellError

from .calls import Calls
from .sign_in import ShellLogin

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds after which a command that still works has the user and the key looked up again.
RENEW_SECONDS = 5.0


@dataclass(slots=True)
class _Admission:
    """The admission of one command. counted: as a request. until: the sign-in need not be looked up again before."""

    counted: bool = False
    until: float = -math.inf


class ShellSession:
    """The caller (`context.Caller`) of all commands of one connection. touch: called when a command works."""

    transport = "ssh"

    def __init__(self, login: ShellLogin, address: str, calls: Calls, touch: Callable[[], object]) -> None:
        self.login = login
        self.user: User = login.user
        self.commands = 0
        self._address, self._calls, self._touch = address, calls, touch
        self._proof = SignInProof(datetime.now(UTC), login.way, user_names.identity_name(login.user))
        #: The admission of the command of this thread.
        self._thread = threading.local()

    def allows(self, command: str) -> bool:
        """See `context.Caller.allows`. Each command asks once, before it does anything else."""
        self.commands += 1
        self._thread.admission = _Admission()
        commands = self.login.restrictions.commands
        return commands is None or command in commands

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See `context.Caller.call`. The first call of a command counts as a request of the user.

        The user and the key are looked up at the first call of a command, and every few seconds while it works. Raises
        TooManyRequests, and ShellError where the user or the key is no longer valid.
        """
        self._touch()
        work = partial(function, *args, **kwargs)
        admission: _Admission = self._thread.__dict__.setdefault("admission", _Admission())
        if not admission.counted:
            self._take()
            admission.counted = True
        if time.monotonic() < admission.until:
            return self._calls.call(self.user.pk, partial(self._restricted, work))
        return self._calls.call(self.user.pk, partial(self._renewed, admission, work))

    def _take(self) -> None:
        taken = rate_limit.take(self.user.pk, self._address)
        if taken is not None and taken.wait:
            raise TooManyRequests(f"You ask too often; wait {taken.wait} seconds", taken.wait)

    def _renewed(self, admission: _Admission, work: Callable[[], T]) -> T:
        """Only a sign-in that is valid admits the command: one that goes on after an error is refused again."""
        login = self.login.renewed()
        if login is None:
            raise ShellError("This sign-in is no longer valid; connect again", "ClientError.AuthenticationFailed")
        self.login, self.user = login, login.user
        admission.until = time.monotonic() + RENEW_SECONDS
        return self._restricted(work)

    def _restricted(self, function: Callable[[], T]) -> T:
        here, endpoints = Origin(self._address), self.login.restrictions.endpoints
        with restricted_to(endpoints), comes_from(here), proven_by(lambda: self._proof):
            return function()
