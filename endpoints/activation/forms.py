"""The forms by which users give credentials: their rows, and the parser of a filled form.

As in the Transfer API, the rows of all forms of an endpoint make one list; a client fills in the rows of one form and
returns the whole list. Values that the service wrote (a server name, a public key) come back unchanged and do not show
which form was filled in; only rows that are `decisive` do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from endpoints.errors import RequirementError
from identity.gsi.printable import FORBIDDEN
from identity.hidden import Secret

#: Used when a form gives no lifetime; MyProxy, OAuth servers and the Transfer API have the same default.
DEFAULT_LIFETIME = timedelta(hours=12)
#: One year in hours. Servers issue shorter ones anyway.
LONGEST_HOURS = 8760
#: Characters of a file value (PEM), and of any other value.
LONGEST_FILE, LONGEST_TEXT = 64 * 1024, 4096


class Form(StrEnum):
    """The `type` of a requirement."""

    MYPROXY = "myproxy"
    OAUTH = "oauth"
    DELEGATE_PROXY = "delegate_proxy"
    PROXY = "proxy"
    SSH_KEY = "ssh_key"
    PASSWORD = "password"  # noqa: S105
    ACCESS_KEY = "access_key"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of a form. private: a secret, which is never shown."""

    form: Form
    name: str
    ui_name: str
    description: str
    required: bool = True
    private: bool = False
    decisive: bool = False
    #: A file in PEM, which may have line ends.
    file: bool = False
    #: The value that the service wrote.
    value: str | None = None


_HOURS = "Lifetime of the credential in whole hours"
_FORMS: tuple[Requirement, ...] = (
    Requirement(Form.MYPROXY, "hostname", "MyProxy Server", "host or host:port of the MyProxy server"),
    Requirement(Form.MYPROXY, "username", "Username", "Your name at the MyProxy server", decisive=True),
    Requirement(
        Form.MYPROXY, "passphrase", "Passphrase", "Your passphrase there; used once, and not stored",
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
    Requirement(Form.OAUTH, "state", "State", "The value that came with the sign-in page", False),
    Requirement(
        Form.OAUTH, "code", "Authorization Code", "The line that the page showed", private=True, decisive=True
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
    Requirement(Form.PASSWORD, "username", "Username", "Your account on the servers of this endpoint", decisive=True),
    Requirement(
        Form.PASSWORD, "password", "Password",
        "Kept encrypted here; it travels in clear to a server without TLS, where others may read it",
        private=True, decisive=True,
    ),
    Requirement(
        Form.PASSWORD, "lifetime_in_hours", "Lifetime (hours)", "Time until it is deleted; never if empty", False
    ),
    Requirement(Form.SSH_KEY, "username", "Username", "Your account on the servers of this endpoint", decisive=True),
    Requirement(
        Form.SSH_KEY, "private_key", "Private Key", "An ssh key file, as ssh-keygen makes it",
        private=True, decisive=True, file=True,
    ),
    Requirement(
        Form.SSH_KEY, "passphrase", "Passphrase", "The key's passphrase, if any; used once, and not stored",
        required=False, private=True,
    ),
    Requirement(
        Form.SSH_KEY, "lifetime_in_hours", "Lifetime (hours)", "Time until the key is deleted; never if empty", False
    ),
    Requirement(
        Form.ACCESS_KEY, "access_key_id", "Access Key ID", "The name of your access key at the object store",
        decisive=True,
    ),
    Requirement(
        Form.ACCESS_KEY, "secret_access_key", "Secret Access Key", "Kept encrypted here, and never sent to the store",
        private=True, decisive=True,
    ),
    Requirement(
        Form.ACCESS_KEY, "session_token", "Session Token", "Of temporary credentials (STS); else empty",
        required=False, private=True,
    ),
    Requirement(
        Form.ACCESS_KEY, "lifetime_in_hours", "Lifetime (hours)", "Time until the key is deleted; never if empty", False
    ),
)  # fmt: skip
_ROWS = {(row.form, row.name): row for row in _FORMS}
#: Files that the service wrote and that clients return unchanged.
_WRITTEN_FILES = {(Form.DELEGATE_PROXY, "public_key"), (Form.DELEGATE_PROXY, "certificate_request")}
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\U0010ffff]")


class GivenField(NamedTuple):
    """A row as a client sent it. Any value may be a secret: users mistake one field for another."""

    type: str
    name: str
    value: Secret | None


@dataclass(frozen=True, slots=True)
class FilledForm:
    """One form, filled in and checked."""

    form: Form
    values: Mapping[str, Secret]

    def __getitem__(self, name: str) -> str:
        """ "" for an empty field. The value is a secret: do not keep it in a variable."""
        return self.values[name].value if name in self.values else ""

    def lifetime(self) -> timedelta | None:
        """None: no lifetime was given. Raises RequirementError."""
        text = self["lifetime_in_hours"]
        if not text:
            return None
        hours = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
        if not 1 <= hours <= LONGEST_HOURS:
            reason = f"Expected a whole number of hours from 1 to {LONGEST_HOURS}."
            raise RequirementError(f"{self.form}.lifetime_in_hours", reason)
        return timedelta(hours=hours)


def rows(form: Form, written: Mapping[str, str | None]) -> Iterator[Requirement]:
    """The rows of a form, with the values that the service writes."""
    for row in _FORMS:
        if row.form is form:
            yield replace(row, value=written.get(row.name))


def read(given: Iterable[GivenField], offered: Collection[Form]) -> FilledForm | None:
    """The form that is filled in; None when none is. Raises RequirementError, which contains no value."""
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
    return _complete(FilledForm(meant[0], values[meant[0]])) if meant else None


def _known(one: GivenField, offered: Collection[Form]) -> Requirement:
    if one.type not in set(offered):
        wanted = f"takes {' or '.join(offered)} only" if offered else "needs no credential"
        raise RequirementError("type", f"This endpoint {wanted}.")
    row = _ROWS.get((Form(one.type), one.name))
    if row is None:
        raise RequirementError("name", f"The form {one.type} has no row of this name.")
    return row


def _checked(row: Requirement, secret: Secret) -> Secret:
    is_file = row.file or (row.form, row.name) in _WRITTEN_FILES
    longest, controls = (LONGEST_FILE, _CONTROL_BUT_LINES) if is_file else (LONGEST_TEXT, FORBIDDEN)
    if len(secret.value) > longest:
        raise RequirementError(f"{row.form}.{row.name}", f"Expected at most {longest} characters.")
    if controls.search(secret.value):
        reason = "Expected a text file in PEM." if is_file else "Expected no control characters."
        raise RequirementError(f"{row.form}.{row.name}", reason)
    return secret


def _complete(filled: FilledForm) -> FilledForm:
    for (form, name), row in _ROWS.items():
        if form is filled.form and row.required and not filled[name] and (form, name) != (Form.MYPROXY, "hostname"):
            raise RequirementError(f"{form}.{name}", "This is missing.")
    return filled
