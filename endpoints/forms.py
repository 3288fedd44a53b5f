"""The forms in which a user can give a credential: what each asks for, and how a filled one is read.

As the Transfer API has it, all forms that an endpoint offers are rows of one list; a client fills in the rows of one
form and sends the whole list back. What the service wrote into it (the name of a server, a public key) comes back too
and says nothing about which form is meant: the rows that are `decisive` do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from identity.hidden import Secret

from .errors import RequirementError

#: What is left out of a form; of MyProxy and OAuth servers, and of the Transfer API.
DEFAULT_LIFETIME = timedelta(hours=12)
#: A year, in hours. Servers give less anyway.
LONGEST_HOURS = 8760
#: Characters of a value that is a file (PEM), and of any other.
LONGEST_FILE, LONGEST_TEXT = 64 * 1024, 4096


class Form(StrEnum):
    """The `type` of a requirement."""

    MYPROXY = "myproxy"
    OAUTH = "oauth"
    DELEGATE_PROXY = "delegate_proxy"
    PROXY = "proxy"
    SSH_KEY = "ssh_key"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of a form. private: it is never shown, and nobody but the service should see it."""

    form: Form
    name: str
    ui_name: str
    description: str
    required: bool = True
    private: bool = False
    decisive: bool = False
    #: Lines are allowed: a file in PEM.
    file: bool = False
    #: What the service wrote into it.
    value: str | None = None


_HOURS = "How long the credential shall be valid, in whole hours"
_FORMS: tuple[Requirement, ...] = (
    Requirement(Form.MYPROXY, "hostname", "MyProxy Server", "host or host:port of the MyProxy server"),
    Requirement(Form.MYPROXY, "username", "Username", "Your name at the MyProxy server", decisive=True),
    Requirement(
        Form.MYPROXY, "passphrase", "Passphrase", "Of the MyProxy server; used once, and not kept",
        private=True, decisive=True,
    ),
    Requirement(
        Form.MYPROXY, "server_dn", "Server DN", "Subject of the MyProxy server's certificate, if not its host name",
        required=False,
    ),
    Requirement(Form.MYPROXY, "lifetime_in_hours", "Credential Lifetime (hours)", f"{_HOURS}; 12 if empty", False),
    Requirement(
        Form.OAUTH, "authorization_url", "Sign-in Page", "Open this page, sign in, and bring back the code", False
    ),
    Requirement(Form.OAUTH, "state", "State", "As it came with the sign-in page", False),
    Requirement(
        Form.OAUTH, "code", "Authorization Code", "What the page showed in the end", private=True, decisive=True
    ),
    Requirement(Form.OAUTH, "lifetime_in_hours", "Credential Lifetime (hours)", f"{_HOURS}; 12 if empty", False),
    Requirement(
        Form.DELEGATE_PROXY, "public_key", "Public Key", "Make a proxy certificate (RFC 3820) for this key", False
    ),
    Requirement(
        Form.DELEGATE_PROXY, "certificate_request", "Signing Request", "The same key, as a request (PKCS#10)", False
    ),
    Requirement(
        Form.DELEGATE_PROXY, "proxy_chain", "Proxy Chain", "The proxy certificate and then its issuers, in PEM",
        decisive=True, file=True,
    ),
    Requirement(
        Form.PROXY, "proxy", "Proxy Credential", "A proxy file as it is: certificate, key, issuers, in PEM",
        private=True, decisive=True, file=True,
    ),
    Requirement(Form.SSH_KEY, "username", "Username", "Your account on the servers of this endpoint", decisive=True),
    Requirement(
        Form.SSH_KEY, "private_key", "Private Key", "An ssh key file, as ssh-keygen makes it",
        private=True, decisive=True, file=True,
    ),
    Requirement(
        Form.SSH_KEY, "passphrase", "Passphrase", "Of the key, if it has one; used once, and not kept",
        required=False, private=True,
    ),
    Requirement(
        Form.SSH_KEY, "lifetime_in_hours", "Lifetime (hours)", "When the key shall be forgotten; never if empty", False
    ),
)  # fmt: skip
_ROWS = {(row.form, row.name): row for row in _FORMS}
#: Files that the service wrote, which clients send back as they came.
_WRITTEN_FILES = {(Form.DELEGATE_PROXY, "public_key"), (Form.DELEGATE_PROXY, "certificate_request")}
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\U0010ffff]")


class Given(NamedTuple):
    """A row as a client sent it. Whatever the value is, it may be a secret: people mistake one field for another."""

    type: str
    name: str
    value: Secret | None


@dataclass(frozen=True, slots=True)
class Filled:
    """One form, filled in and checked."""

    form: Form
    values: Mapping[str, Secret]

    def __getitem__(self, name: str) -> str:
        """ "" where nothing was filled in. Better not kept in a variable."""
        return self.values[name].value if name in self.values else ""

    def lifetime(self) -> timedelta | None:
        """None: nothing was said. -> RequirementError"""
        text = self["lifetime_in_hours"]
        if not text:
            return None
        hours = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
        if not 1 <= hours <= LONGEST_HOURS:
            reason = f"A whole number of hours from 1 to {LONGEST_HOURS} is wanted here."
            raise RequirementError(f"{self.form}.lifetime_in_hours", reason)
        return timedelta(hours=hours)


def rows(form: Form, written: Mapping[str, str | None]) -> Iterator[Requirement]:
    """The rows of a form, with what the service writes into them."""
    for row in _FORMS:
        if row.form is form:
            yield replace(row, value=written.get(row.name))


def read(given: Iterable[Given], offered: Collection[Form]) -> Filled | None:
    """The one form that is filled in; None when none is. -> RequirementError, which shows no value"""
    values: dict[Form, dict[str, Secret]] = {}
    for one in given:
        if one.value is not None and one.value.value:
            row = _known(one, offered)
            if row.name in values.setdefault(row.form, {}):
                raise RequirementError(f"{row.form}.{row.name}", "This is there twice: send it once.")
            values[row.form][row.name] = _checked(row, one.value)
    meant = [form for form, found in values.items() if any(_ROWS[form, name].decisive for name in found)]
    if len(meant) > 1:
        raise RequirementError("DATA", f"Fill in one form only, not {' and '.join(meant)} at once.")
    return _complete(Filled(meant[0], values[meant[0]])) if meant else None


def _known(one: Given, offered: Collection[Form]) -> Requirement:
    if one.type not in set(offered):
        wanted = f"takes {' or '.join(offered)} only" if offered else "needs no credential"
        raise RequirementError("type", f"This endpoint {wanted}.")
    row = _ROWS.get((Form(one.type), one.name))
    if row is None:
        raise RequirementError("name", f"The form {one.type} has no row of this name.")
    return row


def _checked(row: Requirement, secret: Secret) -> Secret:
    is_file = row.file or (row.form, row.name) in _WRITTEN_FILES
    longest, controls = (LONGEST_FILE, _CONTROL_BUT_LINES) if is_file else (LONGEST_TEXT, _CONTROL)
    if len(secret.value) > longest:
        raise RequirementError(f"{row.form}.{row.name}", f"At most {longest} characters are wanted here.")
    if controls.search(secret.value):
        reason = "A text file in PEM is wanted here." if is_file else "No control characters are wanted here."
        raise RequirementError(f"{row.form}.{row.name}", reason)
    return secret


def _complete(filled: Filled) -> Filled:
    for (form, name), row in _ROWS.items():
        if form is filled.form and row.required and not filled[name] and (form, name) != (Form.MYPROXY, "hostname"):
            raise RequirementError(f"{form}.{name}", "This is missing.")
    return filled
