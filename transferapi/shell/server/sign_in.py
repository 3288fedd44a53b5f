"""Sign-in at the ssh server: by a public key of the user, or by password and one-time code (keyboard-interactive).

The names of users and the answers to questions go into no log: people type passwords at the wrong place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from django.db import DatabaseError, InterfaceError
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL
from paramiko.server import InteractiveQuery

from endpoints.error_meanings import BUSY, NO_CONNECTION, Unavailable
from identity import password_sign_in, ssh_keys
from identity.call_origin import Origin, comes_from
from identity.hidden import Secret
from identity.models import User
from identity.ssh_public_keys import UNRESTRICTED, KeyRestrictions
from transferapi.outages.connection_limits import is_full
from transferapi.outages.log_filter import is_told
from transferapi.tasks.upkeep import tallies

T = TypeVar("T")
log = logging.getLogger(__name__)
#: Runs a function with the database, in turn with other sign-ins.
Call = Callable[[Callable[[], T]], T]
Answer = int | InteractiveQuery
_PASSWORD = "Password: "  # noqa: S105 - a prompt
_CODE = "One-time code: "


@dataclass(frozen=True, slots=True)
class ShellLogin:
    """The user who has signed in, and the key; None for a password. with_code: a one-time code followed it."""

    user: User
    key: ssh_keys.SshKey | None = None
    with_code: bool = False

    @property
    def restrictions(self) -> KeyRestrictions:
        return UNRESTRICTED if self.key is None else self.key.restrictions

    @property
    def method(self) -> str:
        return "password" if self.key is None else f"key {self.key.fingerprint}"

    @property
    def way(self) -> str:
        """As in `identity.sign_in_proof.SignInProof`: password and code are two factors here as on the pages."""
        if self.key is not None:
            return "ssh key"
        return "code" if self.with_code else "ssh"

    def renewed(self) -> ShellLogin | None:
        """The same login as it is now; None: the user or the key is no longer valid. With the database.

        A key that was removed and added again, or that permits other commands now, begins new sessions only.
        """
        if self.key is not None:
            key = ssh_keys.find_again(self.key)
            if key is None or key.id != self.key.id or key.restrictions.commands != self.restrictions.commands:
                return None
            return ShellLogin(key.user, key)
        user = User.objects.filter(pk=self.user.pk, is_active=True, password=self.user.password).first()
        return None if user is None else ShellLogin(user, with_code=self.with_code)


class ShellSignIn:
    """The sign-in of one connection. `login` is the result of the last attempt.

    A client may ask whether a key would do before it signs with it; the transport verifies the signature after
    `with_key`. The attempt that succeeds is therefore always the last one.
    """

    def __init__(self, call: Call[Answer], address: str, most_attempts: int) -> None:
        self._call = call
        self._address = address
        self._left = most_attempts
        #: It reads the answers to the questions that were asked; None: none were asked.
        self._expects: Callable[[Secret], Answer] | None = None
        self._answers = 0
        self.login: ShellLogin | None = None
        #: Too many attempts, or the service is busy: the connection ends with this text.
        self.refusal = ""

    def with_key(self, user_name: str, blob: bytes) -> Answer:
        return self._attempt(lambda: self._find(user_name, blob))

    def with_questions(self, user_name: str) -> Answer:
        self._expects, self._answers = lambda password: self._check(user_name, password), 1
        return _question(_PASSWORD)

    def answered(self, answers: list[str]) -> Answer:
        """The answers of the client, which may come without a question."""
        expects, self._expects = self._expects, None
        if expects is None or len(answers) != self._answers:
            return AUTH_FAILED
        return self._attempt(lambda: expects(Secret("".join(answers))))

    def _attempt(self, attempt: Callable[[], Answer]) -> Answer:
        self.login = None
        self._left -= 1
        if self._left < 0:
            self.refusal = "Too many attempts"
            return AUTH_FAILED
        try:
            answer = self._call(lambda: self._from_here(attempt))
            if answer == AUTH_FAILED:
                tallies.add("shell_sign_ins", "refused")
            return answer
        except (DatabaseError, InterfaceError, Unavailable) as error:
            if not is_told(error):
                log.warning("a sign-in by ssh failed: %s", type(error).__name__)
            self.refusal = NO_CONNECTION if is_full(error) else BUSY
            return AUTH_FAILED

    def _from_here(self, attempt: Callable[[], Answer]) -> Answer:
        with comes_from(Origin(self._address)):
            return attempt()

    def _find(self, user_name: str, blob: bytes) -> Answer:
        key = ssh_keys.find(user_name, blob)
        if key is None:
            return AUTH_FAILED
        self.login = ShellLogin(key.user, key)
        return AUTH_SUCCESSFUL

    def _check(self, user_name: str, password: Secret) -> Answer:
        try:
            return self._enter(password_sign_in.sign_in(user_name, password, self._address))
        except password_sign_in.CodeRequiredError as error:
            pending = error.pending
            self._expects, self._answers = lambda code: self._finish(pending, code), 1
            return _question(_CODE)
        except password_sign_in.SignInError as error:
            return self._refuse(error)

    def _finish(self, pending: password_sign_in.PendingSignIn, code: Secret) -> Answer:
        try:
            return self._enter(password_sign_in.finish(pending, code, self._address), with_code=True)
        except password_sign_in.SignInError as error:
            return self._refuse(error)

    def _enter(self, user: User, *, with_code: bool = False) -> Answer:
        self.login = ShellLogin(user, with_code=with_code)
        return AUTH_SUCCESSFUL

    def _refuse(self, error: password_sign_in.SignInError) -> Answer:
        """A wrong password needs no words. Everything else is shown by a query without questions."""
        if isinstance(error, password_sign_in.WrongPasswordError):
            return AUTH_FAILED
        self._expects, self._answers = lambda _: AUTH_FAILED, 0
        return InteractiveQuery("", error.message)


def _question(text: str) -> InteractiveQuery:
    query = InteractiveQuery("", "")
    query.add_prompt(text, False)
    return query
