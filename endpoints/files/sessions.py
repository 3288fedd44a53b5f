"""A session for one file or folder, driven from one thread by blocking calls, as long as the request lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from django.conf import settings

from endpoints import concurrency_limits, operations
from endpoints.concurrency_limits import ConcurrencyLimit
from endpoints.sessions import opening
from endpoints.sessions.remote import RemoteSession
from endpoints.sharing.access import Access
from identity.models import User

_T = TypeVar("_T")


class Closable:
    """It has what `_opened` holds until `close`."""

    _opened: ExitStack

    def close(self) -> None:
        """May be called repeatedly."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSession(Closable):
    """Holds slots of `concurrency_limits` and one session until `close`. limits: of which slots are taken.

    Raises TooManyWaitingError, NotActivatedError, VaultError, TargetRefusedError, FaultError.
    """

    def __init__(
        self,
        user: User,
        granted: Access,
        path: str,
        *,
        write: bool,
        limits: Sequence[ConcurrencyLimit] = (concurrency_limits.FILES, concurrency_limits.OPERATIONS),
    ) -> None:
        self.granted = granted
        self.confinement = opening.confinement_of(granted, write=write)
        self._user = user
        with ExitStack() as opened:
            #: The last one counts the memory of the request.
            self.slot = [opened.enter_context(concurrency_limits.RequestSlot(user.pk, one)) for one in limits][-1]
            logins = opening.logins_of(user, granted)
            servers = list(granted.host.servers.all())
            self._runner = opened.enter_context(asyncio.Runner())
            self.session: RemoteSession = self.run(opening.open_session(servers, logins))
            opened.callback(lambda: self._runner.run(self.session.close()))
            #: The path on the host's server.
            self.path = path
            if granted.shared:
                entering = operations.enter(self.session, granted, self.confinement, [path], write=write)
                [self.path] = self.run(entering)
            self._opened = opened.pop_all()

    def resolve(self, path: str) -> str:
        """The path on the host's server; of a share the one without links, as it is now.

        Raises FaultError, LeadsOutError.
        """
        if not self.granted.shared:
            return path
        return self.run(self.confinement.resolve(self.session, self.granted.real(path)))

    @property
    def encrypt(self) -> bool:
        """Whether the endpoint, or its host, demands encrypted data connections."""
        return self.granted.endpoint.force_encryption or self.granted.host.force_encryption

    def run(self, work: Coroutine[Any, Any, _T], seconds: float | None = None) -> _T:
        """seconds: by default those of an operation."""
        with opening.host_paths_hidden(self._user, self.granted):
            return self._runner.run(opening.within(seconds or settings.OPERATION_SECONDS, work))
