"""Scopes, by the names that clients of the Globus services request.

A resource server is one of our APIs; clients store tokens by its name. A token is valid for one resource server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import ScopeSyntaxError

AUTH = "auth.globus.org"
TRANSFER = "transfer.api.globus.org"
GROUPS = "groups.api.globus.org"
SEARCH = "search.api.globus.org"
TIMERS = "524230d7-ea86-4a52-8312-86065a9e0417"
FLOWS = "flows.globus.org"

OPENID = "openid"
PROFILE = "profile"
EMAIL = "email"
VIEW_IDENTITIES = f"urn:globus:auth:scope:{AUTH}:view_identity_set"
VIEW_ANY_IDENTITIES = f"urn:globus:auth:scope:{AUTH}:view_identities"
VIEW_CONSENTS = f"urn:globus:auth:scope:{AUTH}:view_consents"
MANAGE_PROJECTS = f"urn:globus:auth:scope:{AUTH}:manage_projects"
TRANSFER_ALL = f"urn:globus:auth:scope:{TRANSFER}:all"
GROUPS_ALL = f"urn:globus:auth:scope:{GROUPS}:all"
VIEW_MY_GROUPS = f"urn:globus:auth:scope:{GROUPS}:view_my_groups_and_memberships"
SEARCH_ALL = f"urn:globus:auth:scope:{SEARCH}:all"
TIMERS_ALL = f"https://auth.globus.org/scopes/{TIMERS}/timer"
FLOWS_ALL = "https://auth.globus.org/scopes/eec9b274-0c81-4334-bdc2-54e90e689b9a/all"

#: The scope of a request that names none.
DEFAULT = TRANSFER_ALL
#: Scopes that include other scopes.
IMPLIED: dict[str, frozenset[str]] = {
    GROUPS_ALL: frozenset({VIEW_MY_GROUPS}),
    VIEW_ANY_IDENTITIES: frozenset({VIEW_IDENTITIES}),
}
#: Characters: a request for every scope, each with dependencies, is far shorter.
MAX_TEXT = 8192
_TOKEN = re.compile(r"[\[\]*]|[^\s\[\]*]+|\s+")


@dataclass(frozen=True, slots=True)
class Scope:
    """words: the text on the consent page, after "It will be able to"."""

    name: str
    resource_server: str
    words: str


KNOWN: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        Scope(OPENID, AUTH, "know who you are"),
        Scope(PROFILE, AUTH, "see your name and your user name, and look up those of others"),
        Scope(EMAIL, AUTH, "see your e-mail address"),
        Scope(VIEW_IDENTITIES, AUTH, "see your identities, and look up other users"),
        Scope(VIEW_ANY_IDENTITIES, AUTH, "look up other users"),
        Scope(VIEW_CONSENTS, AUTH, "see which applications you have allowed"),
        Scope(MANAGE_PROJECTS, AUTH, "manage your applications: make them, change them, delete them"),
        Scope(TRANSFER_ALL, TRANSFER, "use your endpoints and credentials: list, transfer, delete and share your data"),
        Scope(GROUPS_ALL, GROUPS, "see and manage your groups"),
        Scope(VIEW_MY_GROUPS, GROUPS, "see your groups"),
        Scope(SEARCH_ALL, SEARCH, "search what you may see"),
        Scope(TIMERS_ALL, TIMERS, "start transfers for you at set times, once or repeatedly"),
        Scope(FLOWS_ALL, FLOWS, "run flows for you"),
    )
}


def roots(text: str) -> list[str]:
    """The requested scopes, in order and once each, without their dependencies in brackets.

    The grammar: `scope scope[dependency *optional[deeper]]`. Dependencies are served by this same service and need no
    consent of their own. Raises ScopeSyntaxError.
    """
    if len(text) > MAX_TEXT:
        raise ScopeSyntaxError
    found: dict[str, None] = {}
    depth = 0
    before = " "
    for word in _TOKEN.findall(text):
        depth = _depth(word, before, depth)
        if depth == 0 and not word.isspace() and word not in "[]*":
            found[word] = None
        before = word
    if depth or before == "*":
        raise ScopeSyntaxError
    return list(found)


def _depth(word: str, before: str, depth: int) -> int:
    """The bracket depth after this word. A bracket opens right after a scope; a star stands right before a scope."""
    if before == "*" and (word in "[]*" or word.isspace()):
        raise ScopeSyntaxError
    if word == "[":
        if before in "[]*" or before.isspace():
            raise ScopeSyntaxError
        return depth + 1
    if word == "]":
        if depth == 0 or before == "[":
            raise ScopeSyntaxError
        return depth - 1
    if before == "]" and not word.isspace():
        raise ScopeSyntaxError
    if word == "*" and not (depth and (before == "[" or before.isspace())):
        raise ScopeSyntaxError
    return depth


def by_resource_server(names: Iterable[str]) -> dict[str, list[str]]:
    """Known scopes by resource server; both in the order of `names`."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(KNOWN[name].resource_server, []).append(name)
    return found


def resource_server(text: str) -> str:
    """The resource server of a token with these scopes."""
    first = text.split(" ", 1)[0]
    return KNOWN[first].resource_server if first in KNOWN else AUTH


def covered(text: str) -> frozenset[str]:
    """All scopes that a token with these scopes includes."""
    named = frozenset(text.split())
    return named.union(*(IMPLIED[name] for name in named if name in IMPLIED))
