"""Scopes, by the names that clients of the Globus services request.

A resource server is one of our APIs; clients store tokens by its name. A token is valid for one resource server.
Scopes of services that are not here are granted too, because programs written for Globus ask for all of theirs at once:
no route accepts the token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from identity.gsi.printable import translatable as _

from .errors import ScopeSyntaxError

AUTH = "auth.globus.org"
TRANSFER = "transfer.api.globus.org"
GROUPS = "groups.api.globus.org"
TIMERS = "524230d7-ea86-4a52-8312-86065a9e0417"

OPENID = "openid"
PROFILE = "profile"
EMAIL = "email"
#: Asks for refresh tokens, as `access_type=offline` does (OpenID Connect Core section 11).
OFFLINE = "offline_access"
VIEW_IDENTITIES = f"urn:globus:auth:scope:{AUTH}:view_identity_set"
VIEW_ANY_IDENTITIES = f"urn:globus:auth:scope:{AUTH}:view_identities"
VIEW_CONSENTS = f"urn:globus:auth:scope:{AUTH}:view_consents"
MANAGE_PROJECTS = f"urn:globus:auth:scope:{AUTH}:manage_projects"
TRANSFER_ALL = f"urn:globus:auth:scope:{TRANSFER}:all"
GROUPS_ALL = f"urn:globus:auth:scope:{GROUPS}:all"
VIEW_MY_GROUPS = f"urn:globus:auth:scope:{GROUPS}:view_my_groups_and_memberships"
TIMERS_ALL = f"https://auth.globus.org/scopes/{TIMERS}/timer"

#: The scope of a request that names none.
DEFAULT = TRANSFER_ALL
#: Scopes that include other scopes.
IMPLIED: dict[str, frozenset[str]] = {
    GROUPS_ALL: frozenset({VIEW_MY_GROUPS}),
    VIEW_ANY_IDENTITIES: frozenset({VIEW_IDENTITIES}),
}
#: Characters: a request for every scope, each with dependencies, is far shorter.
MAX_TEXT = 8192
#: Scopes of one request, without dependencies, and the services of which they are: each gets tokens of its own.
MAX_SCOPES = 100
MAX_SERVICES = 32
#: Dependencies of the scopes of one request, and how deep they are.
MAX_DEPENDENCIES = 500
MAX_DEPTH = 8
#: Scopes that OpenID Connect defines, and for which this service has nothing (Core section 5.4).
_EMPTY = frozenset({"address", "phone"})
#: The forms of the scopes of a service: by its name, and by the id that it has at Globus.
_BY_NAME = re.compile(r"urn:globus:auth:scope:([a-z0-9][a-z0-9.-]{0,252}):[A-Za-z0-9_.:/-]{1,128}", re.ASCII)
_BY_ID = re.compile(
    r"https://[a-z0-9][a-z0-9.-]{0,252}(?::[0-9]{1,5})?/scopes/([A-Za-z0-9][A-Za-z0-9._-]{0,252})/[A-Za-z0-9_.:/-]{1,128}",
    re.ASCII,
)
#: Services whose scopes have an id, and which clients know by a name.
_NAMED = {
    "eec9b274-0c81-4334-bdc2-54e90e689b9a": "flows.globus.org",
    "facd7ccc-c5f4-42aa-916b-a0e270e2c2a9": "funcx_service",
}
_TOKEN = re.compile(r"[\[\]*]|[^\s\[\]*]+|\s+")
#: The grammar of dependencies: for each kind of token, the kinds that it may follow. A text begins as after a space.
_AFTER = {
    "[": frozenset({"scope"}),
    "]": frozenset({"scope", " ", "]"}),
    "*": frozenset({" ", "["}),
    " ": frozenset({"scope", " ", "[", "]"}),
    "scope": frozenset({"scope", " ", "[", "*"}),
}
_DEEPER = {"[": 1, "]": -1}


@dataclass(frozen=True, slots=True)
class Scope:
    """words: the text on the consent page, after "It will be able to"; "": no route accepts this scope."""

    name: str
    resource_server: str
    words: str = ""


KNOWN: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        Scope(OPENID, AUTH, _("know who you are")),
        Scope(PROFILE, AUTH, _("see your name and your user name, and look up those of others")),
        Scope(EMAIL, AUTH, _("see your e-mail address")),
        Scope(VIEW_IDENTITIES, AUTH, _("see your identities, and look up other users")),
        Scope(VIEW_ANY_IDENTITIES, AUTH, _("look up other users")),
        Scope(VIEW_CONSENTS, AUTH, _("see which applications you have allowed")),
        Scope(MANAGE_PROJECTS, AUTH, _("manage your applications: make them, change them, delete them")),
        Scope(
            TRANSFER_ALL, TRANSFER, _("use your endpoints and credentials: list, transfer, delete and share your data")
        ),
        Scope(GROUPS_ALL, GROUPS, _("see and manage your groups")),
        Scope(VIEW_MY_GROUPS, GROUPS, _("see your groups")),
        Scope(TIMERS_ALL, TIMERS, _("start transfers for you at set times, once or repeatedly")),
    )
}


def find(name: str) -> Scope | None:
    """The scope of this name, also one of a service that is not here; None: a word that names no service."""
    if name in KNOWN:
        return KNOWN[name]
    if name == OFFLINE or name in _EMPTY:
        return Scope(name, AUTH)
    if match := _BY_NAME.fullmatch(name):
        return Scope(name, match[1])
    if match := _BY_ID.fullmatch(name):
        return Scope(name, _NAMED.get(match[1].lower(), match[1]))
    return None


def flaw(names: Sequence[str]) -> str | None:
    """Why these scopes cannot be granted, in ASCII without quotation marks; None if they can."""
    if not 0 < len(names) <= MAX_SCOPES:
        return f"From 1 to {MAX_SCOPES} scopes can be asked for at once"
    found = {name: find(name) for name in names}
    wrong = next((name for name, scope in found.items() if scope is None), None)
    if wrong is not None:
        shown = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in wrong[:60])
        return f"There is no scope {shown}: a scope of a service names the service"
    if len({scope.resource_server for scope in found.values() if scope}) > MAX_SERVICES:
        return f"Scopes of at most {MAX_SERVICES} services can be asked for at once"
    return None


def unserved(names: Iterable[str]) -> list[str]:
    """The resource servers of the scopes for which this service has nothing, in order and once each."""
    found = (find(name) for name in names if name != OFFLINE)
    return list(dict.fromkeys(scope.resource_server for scope in found if scope and not scope.words))


def roots(text: str) -> list[str]:
    """The requested scopes, in order and once each, without their dependencies in brackets.

    The grammar: `scope scope[dependency *optional[deeper]]`. Dependencies are served by this same service and need no
    consent of their own. Raises ScopeSyntaxError.
    """
    return list(dict.fromkeys(path[0] for path, _ in paths(text) if len(path) == 1))


def paths(text: str) -> list[tuple[tuple[str, ...], bool]]:
    """Each requested scope and dependency by its way from a root, a parent before its children; whether it is optional.

    Raises ScopeSyntaxError, also where the dependencies are too many or too deep.
    """
    if len(text) > MAX_TEXT:
        raise ScopeSyntaxError
    found: dict[tuple[str, ...], bool] = {}
    above: list[str] = []
    depth, before, last = 0, " ", ""
    for word in _TOKEN.findall(text):
        depth = _depth(word, before, depth)
        if word == "[":
            above.append(last)
        elif word == "]":
            above.pop()
        elif not word.isspace() and word != "*":
            found.setdefault((*above, word), before == "*")
            last = word
        before = word
    if depth or before == "*" or sum(len(path) > 1 for path in found) > MAX_DEPENDENCIES:
        raise ScopeSyntaxError
    return list(found.items())


def _depth(word: str, before: str, depth: int) -> int:
    """The bracket depth after this word. A bracket opens right after a scope; a star stands right before a scope."""
    kind = _kind(word)
    if _kind(before) not in _AFTER[kind] or (kind == "*" and not depth):
        raise ScopeSyntaxError
    depth += _DEEPER.get(kind, 0)
    if not 0 <= depth <= MAX_DEPTH:
        raise ScopeSyntaxError
    return depth


def _kind(word: str) -> str:
    return word if word in _AFTER else " " if word.isspace() else "scope"


def by_resource_server(names: Iterable[str]) -> dict[str, list[str]]:
    """Well-formed scopes by resource server; both in the order of `names`.

    Auth is the first where one of its scopes was asked for: clients use the first token to ask who the user is.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        if scope := find(name):
            found.setdefault(scope.resource_server, []).append(name)
    return dict(sorted(found.items(), key=_place))


def _place(pair: tuple[str, list[str]]) -> int:
    """The last one is a token of Auth for which nobody asked: `offline_access` says nothing about users."""
    return 1 if pair[0] != AUTH else 2 if pair[1] == [OFFLINE] else 0


def resource_server(text: str) -> str:
    """The resource server of a token with these scopes."""
    scope = find(text.split(" ", 1)[0])
    return scope.resource_server if scope else AUTH


def covered(text: str) -> frozenset[str]:
    """All scopes that a token with these scopes includes."""
    named = frozenset(text.split())
    return named.union(*(IMPLIED[name] for name in named if name in IMPLIED))
