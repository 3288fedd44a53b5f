"""Where on an endpoint a user may read and write, and how its paths are reached: the one place that resolves them.

A shared endpoint shows a folder of its host. Its users need no credential: that of the endpoint's owner opens the
host's servers, for what a rule lets them have. On every other endpoint the server decides, by the user's own one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from identity.models import User

from .errors import NotPermittedError, PathNotPermittedError
from .gridftp.restriction import Ground as Fence
from .models import Endpoint
from .permissions import READING, Verb, may, rules_for, unruled

#: Rules that a session is told of; their paths go in one line.
MANY = 40


class Ground(NamedTuple):
    """A folder of a shared endpoint, with everything below it. path: begins and ends with "/"."""

    path: str
    write: bool


@dataclass(frozen=True, slots=True)
class Access:
    """How one user reaches one endpoint, at one moment."""

    endpoint: Endpoint
    #: Whose servers are asked: the endpoint itself, where it is not shared.
    host: Endpoint
    #: Whose credential opens them.
    actor_id: uuid.UUID
    #: What stands before its paths on the host: "", or a folder without the slash at its end.
    root: str = ""
    #: None: all of it.
    grounds: tuple[Ground, ...] | None = None

    @property
    def shared(self) -> bool:
        return self.endpoint.host_id is not None

    def allows(self, path: str, *, write: bool) -> bool:
        """Whether a rule covers this path (as its users name it). What the path leads to, links do not tell."""
        if not self.shared:
            return True
        inner = _from_root(path)
        if not self._stays(inner):
            return False
        if self.grounds is None:
            return True
        folder = inner.rstrip("/") + "/"
        return any(folder.startswith(ground.path) and (ground.write or not write) for ground in self.grounds)

    def _stays(self, inner: str) -> bool:
        """Whether the words of a path stay below the root. A host that is shared whole would read "/~/" as a home."""
        homeward = not self.root and _from_root(inner) != inner
        return inner.startswith("/") and ".." not in inner.split("/") and not homeward

    def check(self, path: str, *, write: bool) -> None:
        """-> PathNotPermittedError"""
        if not self.allows(path, write=write):
            raise PathNotPermittedError(self.endpoint, path, write=write)

    def real(self, path: str) -> str:
        """The path as the host's servers know it. -> PathNotPermittedError where the words of it leave the root"""
        if not self.shared:
            return path
        inner = _from_root(path)
        if not self._stays(inner):
            raise PathNotPermittedError(self.endpoint, path, write=False)
        return self.root + inner

    def shown(self, path: str) -> str:
        """The other way: a path of the host's, as users of this endpoint name it; of one elsewhere nothing is told."""
        if not self.shared:
            return path
        if not f"{path}/".startswith(f"{self.root}/"):
            return "/"
        return path[len(self.root) :] or "/"

    def fences(self, paths: Sequence[str] = ()) -> list[Fence]:
        """The folders of the host that a session is kept in (`GridFTPSession.restrict`); of a shared endpoint only.

        paths: what it is about, as users name it: where there are more than MANY rules, others are left out.
        """
        if self.grounds is None:
            return [Fence(self.root + "/", write=True)]
        grounds: Sequence[Ground] = self.grounds
        if paths and len(grounds) > MANY:
            folders = [_from_root(path).rstrip("/") + "/" for path in paths]
            grounds = [one for one in grounds if any(folder.startswith(one.path) for folder in folders)]
        return [Fence(self.root + ground.path, ground.write) for ground in grounds]


def of(user: User, endpoint: Endpoint, verb: Verb) -> Access:
    """-> NotPermittedError. The endpoint comes with its owner, its host and the host's owner (`registry.resolve`)."""
    if not may(user, verb, endpoint):
        raise NotPermittedError(verb, endpoint)
    if endpoint.host is None:
        return Access(endpoint, endpoint, user.pk)
    root = endpoint.host_path.rstrip("/")
    if unruled(user, endpoint):
        return Access(endpoint, endpoint.host, endpoint.owner_id, root)
    rules = [rule for rule in rules_for(user, endpoint) if verb in READING or rule.permissions == "rw"]
    grounds = tuple(Ground(rule.path, rule.permissions == "rw") for rule in rules)
    return Access(endpoint, endpoint.host, endpoint.owner_id, root, grounds)


def _from_root(path: str) -> str:
    """A shared endpoint has one home for all: its root."""
    if path == "/~":
        return "/"
    return path[2:] if path.startswith("/~/") else path
